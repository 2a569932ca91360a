package gvisor

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// holdsCPU reports whether a number of processors can be held without a control group: by the
// processors that a box may run on, so only a whole number of them.
func holdsCPU(cpus float64, machine int) bool {
	return cpus == math.Trunc(cpus) || cpus >= float64(machine)
}

// startOn starts the command on so many of the processors that this process may use, chosen by
// chance. What the command starts stays on them. 0 is all of them.
func startOn(cmd *exec.Cmd, cpus int) error {
	if cpus <= 0 {
		return cmd.Start()
	}
	runtime.LockOSThread() // an affinity is a thread's, and is inherited from the one that forks
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	some := choose(all, cpus)
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return err
	}
	err := cmd.Start()
	restored := unix.SchedSetaffinity(0, &all)
	if err == nil && restored != nil {
		_, _ = cmd.Process.Kill(), cmd.Wait() // the caller takes it for not started
	}
	return cmp.Or(err, restored)
}

// choose returns so many of all, or all of them.
func choose(all unix.CPUSet, n int) unix.CPUSet {
	var list []int
	for i := range len(all) * 64 {
		if all.IsSet(i) {
			list = append(list, i)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) //nolint:gosec // it spreads boxes, and hides nothing
	var some unix.CPUSet
	for _, i := range list[:min(n, len(list))] {
		some.Set(i)
	}
	return some
}
