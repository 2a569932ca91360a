package daemon

import "runtime"

// GoArch is the architecture as images and Go call it.
func GoArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "":
		return runtime.GOARCH
	}
	return machine
}
