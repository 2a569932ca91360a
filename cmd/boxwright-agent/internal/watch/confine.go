package watch

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/gvisor"
)

const (
	// spareThreads is more than the agent needs. It has them before there is any code that could use up the
	// box's processes: a Go program that cannot start a thread ends.
	spareThreads = 16
	// siblings is for how many boxes' processes the limit per user has to do on Linux, where boxes of one
	// rootless engine are one user to the kernel.
	siblings = 64
	// slack is what a process may reserve beyond its box's limit of memory without using it.
	slack = 8 << 30
	// reserve is the same as a multiple of that limit.
	reserve = 8
)

// Confine sets those limits that the kernel enforces by itself, for the caller and all that it starts.
func Confine(b Bounds) error {
	if b.Processes > 0 || gvisor.Inside() {
		GatherThreads()
	}
	if b.Memory > 0 {
		if err := limit(unix.RLIMIT_DATA, uint64(b.Memory)*reserve+slack); err != nil {
			return err
		}
	}
	if b.Processes > 0 {
		return limit(unix.RLIMIT_NPROC, processes(b, gvisor.Inside()))
	}
	return nil
}

// processes is the limit per user. In gVisor a box is a kernel of its own, and the limit is exact.
func processes(b Bounds, exact bool) uint64 {
	if !exact {
		return uint64(b.Processes) * siblings //nolint:gosec // positive
	}
	own, _ := os.ReadDir("/proc/self/task")
	return uint64(b.Processes) + uint64(max(len(own), spareThreads)) //nolint:gosec // positive
}

// limit lowers a limit of the caller's, never raises it.
func limit(resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	value = min(value, now.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: min(value, now.Cur), Max: value})
}

// GatherThreads has the runtime make threads, which it keeps.
func GatherThreads() {
	var ready, gone sync.WaitGroup
	release := make(chan struct{})
	for range spareThreads {
		ready.Add(1)
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	gone.Wait()
}
