package main

import (
	"strconv"
	"strings"

	"github.com/boxwright/boxwright/core"
)

const homeBytes, shmBytes = 64 << 20, 64 << 20

// plan turns a spec into bwrap's arguments. It does no I/O, so a test can show what it comes to.
func plan(spec core.BoxSpec, agent string, data func(volume string) string) []string {
	args := []string{
		"--unshare-user", "--unshare-all", "--new-session", "--as-pid-1", "--hostname", "box", "--clearenv", "--info-fd", "3",
		"--uid", strconv.Itoa(core.GuestUID), "--gid", strconv.Itoa(core.GuestGID), "--cap-drop", "ALL",
	}
	for path := range strings.FieldsSeq("/usr /bin /sbin /lib /lib64 /etc/alternatives /etc/ld.so.cache /etc/ssl/certs /etc/ssl/openssl.cnf") {
		args = append(args, "--ro-bind-try", path, path) // and never keys, as in /etc/ssl/private
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev")
	args = append(args, writable("/dev/shm", shmBytes, "1777")...)
	args = append(args, writable(core.GuestWork, spec.Limits.DiskBytes, "0755")...)
	args = append(args, writable(core.GuestHome, homeBytes, "0755")...)
	args = append(args, writable(core.GuestTmp, spec.Limits.DiskBytes/2, "1777")...)
	args = append(args, "--ro-bind", agent, core.GuestAgent)
	for _, m := range spec.Mounts {
		how := "--ro-bind"
		if m.Writable {
			how = "--bind"
		}
		args = append(args, how, data(m.Volume), m.Path)
	}
	args = append(args, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", core.GuestWork, "--", core.GuestAgent)
	args = append(args, spec.AgentArgs(limits())...)
	// Outside of the box, the user who dials is the one who made it; inside, that is the box's own.
	return append(args, "--dial-uid", strconv.Itoa(core.GuestUID))
}

// writable is a folder in memory.
func writable(path string, size int64, mode string) []string {
	return []string{"--perms", mode, "--size", strconv.FormatInt(size, 10), "--tmpfs", path}
}
