package runner

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestBaseEnv(t *testing.T) {
	env := BaseEnv([]string{
		"PATH=/opt/conda/bin:/bin", "LANG=de_DE.UTF-8", "JAVA_HOME=/opt/java", "HOME=/root", "HOSTNAME=abc",
		"https_proxy=http://user:pass@proxy", "KUBERNETES_PORT=tcp://10.0.0.1", "DB_SERVICE_HOST=10.0.0.2", "DB_PORT_5432_TCP=x", "BOXWRIGHT_KEY=s",
		"=odd", "EMPTY=",
	})
	want := []string{
		"HOME=/home/box", "JAVA_HOME=/opt/java", "LANG=de_DE.UTF-8", "MPLBACKEND=Agg", "PATH=/opt/conda/bin:/bin",
		"PYTHONDONTWRITEBYTECODE=1", "TMPDIR=/tmp",
	}
	if got := Pairs(env); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if env := BaseEnv(nil); env["PATH"] != usualPath || env["LANG"] != "C.UTF-8" {
		t.Errorf("an image without any: %q", env)
	}
}

func TestEnvironment(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	base := map[string]string{"PATH": "/bin", "A": "1", "B": "2", "PYTHONPATH": "/image"}
	env := environment(base, core.RunSpec{Env: map[string]string{"B": "3", "C": "4"}, PythonPath: []string{folder, "/nowhere"}})
	if env["PATH"] != folder+"/bin:/bin" || env["A"] != "1" || env["B"] != "3" || env["C"] != "4" || env["PYTHONPATH"] != folder+":/nowhere:/image" {
		t.Errorf("got %q", env)
	}
	if base["B"] != "2" {
		t.Error("the base was changed")
	}
}

func TestCheck(t *testing.T) {
	for name, spec := range map[string]core.RunSpec{
		"no id":         {Code: []byte("1")},
		"long id":       {ID: strings.Repeat("x", 300), Code: []byte("1")},
		"both":          {ID: "x", Code: []byte("1"), Argv: []string{"y"}},
		"empty program": {ID: "x", Argv: []string{""}},
		"NUL":           {ID: "x", Code: []byte("a\x00")},
		"NUL argument":  {ID: "x", Argv: []string{"a", "\x00"}},
		"NUL folder":    {ID: "x", Argv: []string{"a"}, Dir: "\x00"},
		"bad name":      {ID: "x", Argv: []string{"a"}, Env: map[string]string{"a=": "b"}},
		"much":          {ID: "x", Argv: []string{"a", strings.Repeat("x", 2<<20)}},
		"negative":      {ID: "x", Argv: []string{"a"}, Timeout: -1},
	} {
		if err := check(spec); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := check(core.RunSpec{ID: "x", Argv: []string{"a", "ж \xff"}, Env: map[string]string{"A": ""}}); err != nil {
		t.Error(err)
	}
}

func TestOOMCount(t *testing.T) {
	for text, want := range map[string]int64{
		"low 0\nhigh 5\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n": 3,
		"oom_kill_disable 0\nunder_oom 1\noom_kill 4\n":               4,
		"": 0, "oom_kill x\n": 0,
	} {
		if got := oomCount([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestExitOf(t *testing.T) {
	exited := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	for _, c := range []struct {
		status syscall.WaitStatus
		why    cause
		want   core.Exit
	}{
		{exited(0), byItself, core.Exit{}},
		{syscall.WaitStatus(9), byMemory, core.Exit{Code: 137, Signal: "SIGKILL", OOMKilled: true}},
		{syscall.WaitStatus(9), byProcesses, core.Exit{Code: 137, Signal: "SIGKILL"}},
		{exited(3), byTimeout, core.Exit{Code: 3, TimedOut: true}},
		{syscall.WaitStatus(9), byKill, core.Exit{Code: 137, Signal: "SIGKILL", Cancelled: true}},
		{syscall.WaitStatus(11 | 0x80), byItself, core.Exit{Code: 139, Signal: "SIGSEGV"}},
		{syscall.WaitStatus(40), byItself, core.Exit{Code: 168, Signal: "SIG40"}},
	} {
		got := exitOf(c.status, c.why)
		if got.Code != c.want.Code || got.Signal != c.want.Signal || got.TimedOut != c.want.TimedOut || got.OOMKilled != c.want.OOMKilled || got.Cancelled != c.want.Cancelled {
			t.Errorf("%v: got %+v", c, got)
		}
	}
}

func TestForget(t *testing.T) {
	r := New(Config{})
	for i := range 30 {
		run, err := r.Begin(core.RunSpec{ID: string(rune('a' + i)), Argv: []string{"x"}, Output: core.OutputLimits{Spill: 32 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = run.captures[0].Write(make([]byte, 20<<20))
		run.started = true
		close(run.done)
	}
	kept := int64(0)
	for _, run := range r.order {
		kept += run.captures[0].Result().Spilled
	}
	if len(r.order) > keptRuns+1 || kept > keptSpill+20<<20 || r.order[len(r.order)-1].captures[0].Result().Spilled == 0 {
		t.Errorf("%d runs, %d bytes are kept", len(r.order), kept)
	}
	if _, err := r.Begin(core.RunSpec{ID: "one more", Argv: []string{"x"}}); err != nil {
		t.Error(err)
	}
	run, _ := r.Begin(core.RunSpec{ID: "given up", Argv: []string{"x"}})
	r.Abandon(run)
	if _, err := r.Wait(t.Context(), "given up"); !errors.Is(err, core.ErrNotFound) {
		t.Error(err)
	}
}

// TestAbandonSettles: who waits for a run that is then not started is told so.
func TestAbandonSettles(t *testing.T) {
	r := New(Config{})
	for name, giveUp := range map[string]func(*Run){
		"Abandon": r.Abandon,
		"twice":   func(run *Run) { r.Abandon(run); r.Abandon(run) },
		"Start":   func(run *Run) { _ = r.Start(run, []byte("\x00"), nil) },
	} {
		run, err := r.Begin(core.RunSpec{ID: name, Argv: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		found := r.find(name)
		giveUp(run)
		select {
		case <-found.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it waits for ever", name)
		}
		if _, err := found.Result(); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := r.Begin(core.RunSpec{ID: name, Argv: []string{"x"}}); err != nil {
			t.Errorf("%s: its id stays taken: %v", name, err)
		} else {
			r.Abandon(again)
		}
	}
}

func TestKillBeforeItsTurn(t *testing.T) {
	r := New(Config{})
	<-r.turn // somebody else's
	run, err := r.Begin(core.RunSpec{ID: "x", Argv: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(run, nil, nil); err != nil {
		t.Fatal(err)
	}
	r.Kill("x")
	r.Kill("x")
	r.Kill("unknown")
	select {
	case <-run.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for its turn")
	}
	if exit, err := run.Result(); err != nil || !exit.Cancelled {
		t.Errorf("%+v %v", exit, err)
	}
}

// A mistake in the middle of a run ends that run, and only then what it started: nothing here is a real run's.
func TestContain(t *testing.T) {
	for name, c := range map[string]struct {
		perform func() (core.Exit, error)
		want    core.Kind
		cleared bool
	}{
		"a run":           {func() (core.Exit, error) { return core.Exit{Code: 3}, nil }, "", false},
		"one that fails":  {func() (core.Exit, error) { return core.Exit{}, core.Errorf(core.ErrInvalid, "x") }, core.ErrInvalid, false},
		"one that panics": {func() (core.Exit, error) { panic("x") }, core.ErrInternal, true},
	} {
		cleared := false
		exit, err := contain(c.perform, func() error {
			cleared = true
			panic("this too")
		})
		if core.KindOf(err) != c.want || cleared != c.cleared || c.want == "" && exit.Code != 3 {
			t.Errorf("%s: %+v, %v, cleared: %t", name, exit, err, cleared)
		}
	}
}
