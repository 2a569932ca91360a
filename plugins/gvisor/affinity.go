package gvisor

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
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

// followsThreads reports whether this kernel tells what a process has started, so that a box can be kept on fewer
// processors after its start than it was started on.
func followsThreads() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
}

// keepOn has processes, and all that they have started, run on so many of the processors that this process may
// use, chosen by chance. What they start later stays on them.
func keepOn(pids []int, cpus int) error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	some := choose(all, cpus)
	const most = 100 // looks; new threads come from ones that were not there yet, and these are few
	for range most {
		moved, err := moveTo(&some, pids)
		if err != nil || !moved {
			return err
		}
	}
	return core.Errorf(core.ErrInternal, "the box starts threads faster than they can be kept to their processors")
}

// moveTo moves all threads of processes and of their descendants, and reports whether there was one to move.
func moveTo(some *unix.CPUSet, pids []int) (moved bool, err error) {
	for _, pid := range withDescendants(pids) {
		for _, tid := range threadsOf(pid) {
			now, err := moveOne(some, tid)
			if err != nil {
				return false, err
			}
			moved = moved || now
		}
	}
	return moved, nil
}

// withDescendants adds what processes have started, and what these have.
func withDescendants(pids []int) []int {
	all := slices.Clone(pids)
	for i := 0; i < len(all); i++ {
		for _, tid := range threadsOf(all[i]) {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", all[i], tid)) // none, if it has ended
			for child := range strings.FieldsSeq(string(children)) {
				if pid, err := strconv.Atoi(child); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// threadsOf are none if the process has ended.
func threadsOf(pid int) []int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var tids []int
	for _, entry := range entries {
		if tid, err := strconv.Atoi(entry.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// moveOne moves a thread, unless it is there already or has ended.
func moveOne(some *unix.CPUSet, tid int) (moved bool, err error) {
	var has unix.CPUSet
	err = unix.SchedGetaffinity(tid, &has)
	if err == nil && has != *some {
		err = unix.SchedSetaffinity(tid, some)
		moved = err == nil
	}
	if errors.Is(err, unix.ESRCH) {
		err = nil
	}
	return moved, err
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
