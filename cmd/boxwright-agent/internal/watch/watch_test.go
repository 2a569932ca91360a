package watch

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is an emergency brake.
const patience = 30 * time.Second

func TestBreachOfEachBound(t *testing.T) {
	steady := func(n int64) func(int64) int64 { return func(int64) int64 { return n } }
	rising := func(step int64) func(int64) int64 {
		var n int64
		return func(int64) int64 { n += step; return n }
	}
	for name, c := range map[string]struct {
		meter meter
		want  Breach
	}{
		"memory": {
			meter{memory: rising(1 << 20), tasks: steady(7)},
			Breach{Memory: true, Message: "the program was killed because the box used 11 MiB of memory; its limit is 10 MiB"},
		},
		"processes": {
			meter{memory: steady(10 << 20), tasks: rising(1)},
			Breach{Message: "the program was killed because the box had 8 processes and threads; its limit is 7"},
		},
		"processes at once": {
			meter{memory: steady(0), tasks: steady(1000)},
			Breach{Message: "the program was killed because the box had 1000 processes and threads; its limit is 7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Watcher{bounds: Bounds{Memory: 10 << 20, Processes: 7}, meter: func() meter { return c.meter }}
			breaches, stop := w.Start()
			defer stop()
			select {
			case got := <-breaches:
				if got != c.want {
					t.Errorf("got %+v", got)
				}
			case <-time.After(patience):
				t.Error("nobody noticed")
			}
		})
	}
}

func TestNothingToWatch(t *testing.T) {
	for name, w := range map[string]*Watcher{"nil": nil, "no bounds": New(Bounds{}), "not measured": {bounds: Bounds{Memory: 1, Processes: 1}, meter: func() meter { return meter{} }}} {
		breaches, stop := w.Start()
		select {
		case got := <-breaches:
			t.Errorf("%s: %+v", name, got)
		default:
		}
		stop()
	}
}

// TestWatchingEnds: nothing is measured any more for a program that is over.
func TestWatchingEnds(t *testing.T) {
	looks := make(chan struct{})
	w := &Watcher{bounds: Bounds{Memory: 10}, meter: func() meter {
		return meter{memory: func(int64) int64 { looks <- struct{}{}; return 0 }}
	}}
	_, stop := w.Start()
	<-looks
	stop()
	select {
	case <-looks:
		select { // one look may have begun
		case <-looks:
			t.Error("it goes on")
		case <-time.After(3 * longest):
		}
	case <-time.After(3 * longest):
	}
}

// TestALookThatLasts: one that outlives its program's watch shares nothing with the next one's. What is shared,
// the race detector sees.
func TestALookThatLasts(t *testing.T) {
	entered, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	made := 0
	w := &Watcher{bounds: Bounds{Memory: 10}, meter: func() meter {
		made++
		m, slow := &procMeter{root: "/proc"}, made == 1
		return meter{memory: func(int64) int64 {
			if slow {
				entered <- struct{}{}
				<-goOn
				defer close(ended)
			}
			m.open(nil)
			return 100
		}}
	}}
	_, stop := w.Start()
	<-entered
	stop()
	breaches, stop := w.Start()
	defer stop()
	close(goOn)
	select {
	case <-breaches:
	case <-time.After(patience):
		t.Error("the second watch sees nothing")
	}
	<-ended
	if made != 2 {
		t.Errorf("%d meters for two programs", made)
	}
}

// TestRealMetersAreApart is the same with what the agent really uses.
func TestRealMetersAreApart(t *testing.T) {
	w := New(Bounds{Memory: 1 << 50, Processes: 1 << 20})
	var stops []func()
	for range 3 {
		_, stop := w.Start()
		stops = append(stops, stop)
	}
	time.Sleep(3 * longest) // a few looks of each, at the same time
	for _, stop := range stops {
		stop()
	}
}

func TestPause(t *testing.T) {
	for _, c := range []struct {
		room, rate int64
		look, want time.Duration
	}{
		{100 * growth, growth, 0, longest},
		{10 * growth, growth, 0, 10 * time.Millisecond},
		{0, growth, 0, shortest},
		{0, growth, 5 * time.Millisecond, 20 * time.Millisecond},
		{0, growth, time.Second, longest},
		{100, births, 0, 10 * time.Millisecond},
		{1 << 62, growth, 0, longest},
	} {
		if got := pause(c.room, c.rate, c.look); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	const line = "7 (a) b (c 1 2) S 1 7 7 0 -1 4194560 900 0 0 0 1 2 0 0 20 0 5 0 23 10907648 450 18446744073709551615 1 1"
	if p, ok := parseStat([]byte(line)); !ok || p.tasks != 5 || p.rss != 450*int64(os.Getpagesize()) {
		t.Errorf("got %+v %v", p, ok)
	}
	for _, bad := range []string{"", "7 (a", "7 (a) S 1", "7 (a) " + strings.Repeat("x ", 30)} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q is no line of stat", bad)
		}
	}
}

const mappings = `55d0-55d1 r--p 00000000 fe:00 1   /usr/bin/python3
Pss:                 100 kB
7f01-7f02 rw-s 00000000 00:01 87836                      /dev/zero (deleted)
Rss:                  64 kB
Pss:                  32 kB
Pss_Dirty:            31 kB
7f03-7f04 rw-s 00000000 00:01 9                          /memfd:x (deleted)
Pss:                   8 kB
7f05-7f06 rw-s 00000000 00:01 9                          /work/file
Pss:                1000 kB
7f07-7f08 rw-s 00000000 00:01 9                          /SYSV00000000 (deleted)
Pss:                   4 kB
7f09-7f0a rw-p 00000000 00:00 0
Pss:                2000 kB
`

func TestSharing(t *testing.T) {
	var s sharing
	s.add([]byte(mappings))
	if want := (sharing{anonymous: 36 << 10, unnamed: 8 << 10}); s != want {
		t.Errorf("got %+v", s)
	}
	if got := kilobytes([]byte(mappings), "Pss:"); got != 3144<<10 {
		t.Errorf("a sum of %d", got)
	}
}

// helper is a process that fills memory in one of the ways, says so and waits.
func helper(t *testing.T, code string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	command := exec.CommandContext(t.Context(), python, "-c", code+"\nprint('ready', flush=True)\ninput()")
	in, _ := command.StdinPipe()
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(command.Process.Pid)
}

// TestMemoryOfAProcess: each way of having memory shows, about as much as there is of it.
func TestMemoryOfAProcess(t *testing.T) {
	const size = 40 << 20
	for name, code := range map[string]string{
		"private": "x = b'x' * (40 << 20)",
		"shared":  "import mmap\nm = mmap.mmap(-1, 40 << 20)\nm[:] = b'x' * len(m)",
		"no name": "import os\nf = os.memfd_create('x')\nos.write(f, b'x' * (40 << 20))",
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			m := &procMeter{root: "/proc"}
			p, ok := m.read(helper(t, code))
			if !ok || p.tasks != 1 {
				t.Fatalf("read %+v, %v", p, ok)
			}
			outside := tmpfsBytes() + detached() + socketBytes(nil)
			got := m.exact([]process{p}) - outside
			if got < size || got > size+20<<20 {
				t.Errorf("%d MiB", got>>20)
			}
			if quick := p.rss + m.open([]process{p}).unnamed; quick < size {
				t.Errorf("the quick look misses some: %d MiB", quick>>20)
			}
		})
	}
}

// TestWhatIsGoneCountsNothing: a process may end between two looks.
func TestWhatIsGoneCountsNothing(t *testing.T) {
	m := &procMeter{root: "/proc"}
	outside := tmpfsBytes() + detached() + socketBytes(nil)
	if got := m.exact([]process{{pid: "4194304", rss: 1 << 40}}) - outside; got > 1<<30 {
		t.Errorf("%d bytes", got)
	}
	if _, ok := m.read("4194304"); ok {
		t.Error("it is there")
	}
}

// TestSandboxMemory: what gVisor needs for itself is not the program's.
func TestSandboxMemory(t *testing.T) {
	const programs = "MemTotal: 900 kB\nAnonPages:       100 kB\n"
	for _, c := range []struct {
		before, now string
		want        int64
	}{
		{"", "", 100 << 10},
		{"HeapAlloc: 9000 kB\n", "HeapAlloc:  20000 kB\n", 100 << 10},
		{"HeapAlloc: 9000 kB\n", "HeapAlloc:  65636 kB\nHeapSys: 9 kB\n", 200 << 10},
		{"HeapAlloc: 66000 kB\n", "HeapAlloc:  66100 kB\n", 200 << 10},
		{"HeapAlloc: 99000 kB\n", "HeapAlloc:  66660 kB\n", 200 << 10},
		{"HeapAlloc: 99000 kB\n", "HeapAlloc:  66760 kB\n", 300 << 10},
	} {
		if got := newSandbox([]byte(c.before), 1000<<10+24<<10).bytes([]byte(programs), []byte(c.now)); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestProcessesPerUser(t *testing.T) {
	if got := processes(Bounds{Processes: 100}, false); got != 100*siblings {
		t.Errorf("on Linux %d", got)
	}
	if got := processes(Bounds{Processes: 100}, true); got < 100+spareThreads {
		t.Errorf("in gVisor %d", got)
	}
}
