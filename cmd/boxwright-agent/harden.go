package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fence"
)

// harden keeps the code from looking into the agent, ending it, changing its limits, or leaving its memory
// behind.
func harden() {
	_ = fence.Raise() // where a kernel has no filters, boxes are as good as they were
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	syscall.Umask(0o022)
	withstandSignals()
}

// withstandSignals makes every signal that the code can send have no effect. Go's runtime has handlers
// that end the process for some; to catch a signal keeps it from that. Children begin without handlers:
// what is caught, unlike what is ignored, is not inherited by a new program.
func withstandSignals() {
	const last, reserved, reservedToo = syscall.Signal(64), syscall.Signal(32), syscall.Signal(34)
	caught := make(chan os.Signal, 1)
	for n := syscall.Signal(1); n <= last; n++ {
		switch n {
		case syscall.SIGURG, syscall.SIGCHLD, reserved + 1: // the runtime's and the reaper's
		case reserved, reservedToo:
			ignore(n)
		default:
			signal.Notify(caught, n)
		}
	}
	go func() {
		for range caught { // taken so that the next can come
		}
	}()
}

// ignore is for signals that Go's runtime leaves to C libraries, and that it would die of if they came to
// its handler. Without this it would be the kernel that keeps them from the first process of a box; but
// not if one comes while one thread has it blocked and another has not, as happens whenever a thread is
// started. Children do inherit this; C libraries set these signals up for themselves.
func ignore(n syscall.Signal) {
	const maskSize = 8
	action := [64]byte{1}                                                                                                    // SIG_IGN, without flags, restorer and mask
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0) //nolint:gosec // the kernel's interface
}
