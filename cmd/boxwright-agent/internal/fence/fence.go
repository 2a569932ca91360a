// Package fence keeps the code in a box from changing the limits and the priority of processes that are
// not its own, from sending signals to the agent, and from making namespaces.
//
// Code and agent are the same user, and to the kernel that is enough for prlimit(2) and its kin: a limit
// of one second of CPU would end the agent, a limit of descriptors would make it lose files. A filter of
// system calls, which every process in the box inherits, refuses them. A filter sees numbers only and
// cannot tell whose a process or thread is: so what is allowed is what names nobody, which is the caller.
//
// Signals to the first process of a box are Linux's to refuse, and it does. gVisor does not know that rule:
// neither for those that code sends, nor for those that the kernel sends about a descriptor to whom code named.
//
// What only a tracer may do to a process, such as to move its memory, the kernel refuses by itself, because
// the agent is not dumpable.
package fence

import (
	"errors"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Raise installs the filter in every thread of the caller's, for good. It is to be called while the caller
// is still dumpable. An error says that this kernel has
// none to offer.
func Raise() error {
	_, _ = score.open(), unix.SchedGetaffinity(0, &processors) // without them ForkExec changes nothing
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	err := install(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	if errors.Is(err, unix.EINVAL) { // before Linux 4.17
		err = install(unix.SECCOMP_FILTER_FLAG_TSYNC)
	}
	return err
}

// install spares programs the slower mode that some kernels put whoever has a filter into: the fence is
// not against what could be guessed from timing.
func install(flags uintptr) error {
	filter := program(abis, lastThread())
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}                                                    //nolint:gosec // some hundred
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // the kernel's interface
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return errors.New("a thread has a filter of its own")
	}
	return nil
}

// lastThread is the highest number among the caller's threads. In a box, whose first process the caller is,
// there is nobody else between them but processes of the host's.
func lastThread() uint32 {
	last := agentPID
	entries, _ := os.ReadDir("/proc/self/task")
	for _, entry := range entries {
		if n, err := strconv.Atoi(entry.Name()); err == nil {
			last = max(last, n)
		}
	}
	return uint32(last)
}
