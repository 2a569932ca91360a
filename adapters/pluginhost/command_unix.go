//go:build unix

package pluginhost

import "syscall"

// ownGroup keeps a terminal's Ctrl-C from the plugin: the host still needs it to clean up.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
