package gvisor

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

func TestProcessorsOfABox(t *testing.T) {
	for cpus, want := range map[float64]bool{1: true, 2: true, 0.5: false, 1.5: false, 4.5: true} {
		if got := holdsCPU(cpus, 4); got != want {
			t.Errorf("%v of 4: %v", cpus, got)
		}
	}
	var all unix.CPUSet
	for _, i := range []int{1, 5, 70} {
		all.Set(i)
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 3, 9: 3} {
		some := choose(all, n)
		if some.Count() != want {
			t.Errorf("%d of 3: %d", n, some.Count())
		}
		for i := range 100 {
			if some.IsSet(i) && !all.IsSet(i) {
				t.Errorf("it chose %d", i)
			}
		}
	}
}

// TestAFractionOfAProcessor is rounded up without a control group, or refused with both ways out.
func TestAFractionOfAProcessor(t *testing.T) {
	b := storeBackend(t)
	b.machine.cgroups, b.machine.cpus = cgroups{}, 4
	spec := core.BoxSpec{Limits: core.Limits{CPUs: 1.5}}
	_, err := b.checkHeld(spec)
	hint := core.HintOf(err)
	if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(hint, "limits.cpus to 2") || !strings.Contains(hint, "limits.unenforced to warn") {
		t.Errorf("refused: %v (%s)", err, hint)
	}
	spec.Unenforced = core.UnenforcedWarn
	warned, err := b.checkHeld(spec)
	if err != nil || len(warned) != 1 || !strings.Contains(warned[0], "cpu limit of 1.5 processors is rounded up to 2") {
		t.Errorf("with a warning: %q, %v", warned, err)
	}
	spec.Limits.CPUs = 2
	if warned, err := b.checkHeld(spec); err != nil || len(warned) > 0 {
		t.Errorf("a whole number: %q, %v", warned, err)
	}
}

// affinities are the numbers of processors that the threads of processes and of their descendants may use.
func affinities(t *testing.T, pids ...int) []int {
	t.Helper()
	var counts []int
	for _, pid := range withDescendants(pids) {
		for _, tid := range threadsOf(pid) {
			var set unix.CPUSet
			if unix.SchedGetaffinity(tid, &set) == nil {
				counts = append(counts, set.Count())
			}
		}
	}
	return counts
}

// TestKeepOn moves a process, its children and their children, and what they start afterwards.
func TestKeepOn(t *testing.T) {
	cmd := exec.Command("sh", "-c", "(sleep 1000 & echo; read x; sleep 1000 & echo; wait) & wait")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL); cmd.Wait() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	if err := keepOn([]int{cmd.Process.Pid}, 1); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("\n"))
	lines.Scan()
	counts := affinities(t, cmd.Process.Pid)
	if len(counts) < 3 {
		t.Errorf("there are %d threads", len(counts))
	}
	for _, n := range counts {
		if n != 1 {
			t.Errorf("a thread has %d processors", n)
		}
	}
	if err := keepOn([]int{1 << 30}, 1); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
}

// TestABoxWithoutItsKernel cannot be kept to its processors, and that is an error: nothing would hold it.
func TestABoxWithoutItsKernel(t *testing.T) {
	if err := storeBackend(t).keepOn(newID(), 1); core.KindOf(err) != core.ErrInternal {
		t.Errorf("got %v", err)
	}
}
