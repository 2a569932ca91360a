//go:build !unix

package pluginhost

import "syscall"

// ownGroup is for systems with process groups.
func ownGroup() *syscall.SysProcAttr { return nil }
