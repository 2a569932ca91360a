// Package gvisor tells whether the box's kernel is gVisor's, where a few things are unlike Linux.
package gvisor

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Inside reports whether the caller runs on gVisor.
func Inside() bool {
	var name unix.Utsname
	return unix.Uname(&name) == nil && bytes.Contains(name.Release[:], []byte("gvisor"))
}
