package app_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// fleet is several worlds, each a backend, the first of which that works is the default.
type fleet struct {
	names    []string
	worlds   map[string]*world
	backends *app.Backends
	log      bytes.Buffer
}

func newFleet(t *testing.T, policy core.Unenforced, prefer []string, names ...string) *fleet {
	t.Helper()
	f := &fleet{names: names, worlds: map[string]*world{}}
	var sources []app.Source
	for _, name := range names {
		f.worlds[name] = newWorld()
		sources = append(sources, f.worlds[name].source(name))
	}
	f.backends = app.NewBackends(sources, app.Preference{Names: prefer, Unenforced: policy}, slog.New(slog.NewTextHandler(&f.log, nil)))
	t.Cleanup(func() {
		if err := f.backends.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for name, w := range f.worlds {
			if w.opened.Load() != w.closed.Load() {
				t.Errorf("%s was started %d times and stopped %d times", name, w.opened.Load(), w.closed.Load())
			}
		}
	})
	return f
}

func auto(t *testing.T, policy core.Unenforced) *fleet {
	t.Helper()
	names := []string{"docker", "podman", "gvisor"}
	return newFleet(t, policy, names, names...)
}

func (w *world) breaks(step string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[step] = err
}

func down(what string) error {
	return core.Errorf(core.ErrUnavailable, "%s does not answer", what).WithHint("start %s", what)
}

func TestTheFirstThatWorksIsTheDefault(t *testing.T) {
	for name, c := range map[string]struct {
		policy  core.Unenforced
		prepare func(*fleet)
		want    string
		log     string
		opened  []int64 // docker, podman, gvisor
	}{
		"the first": {prepare: func(*fleet) {}, want: "docker", log: "using docker: the first of docker, podman, gvisor that works here", opened: []int64{1, 0, 0}},
		"no engine": {
			prepare: func(f *fleet) { f.worlds["docker"].fail["info"] = down("Docker") },
			want:    "podman", log: "using podman: docker does not work here (Docker does not answer (start Docker))", opened: []int64{1, 1, 0},
		},
		"not installed": {
			prepare: func(f *fleet) {
				f.worlds["docker"].fail["installed"] = errors.New("it is not installed")
				f.worlds["podman"].fail["info"] = down("Podman")
			},
			want: "gvisor", log: "docker does not work here (it is not installed); podman does not work here (Podman", opened: []int64{0, 1, 1},
		},
		"a limit does not hold": {
			prepare: func(f *fleet) { f.worlds["docker"].fail["hold memory"] = errors.New("no") },
			want:    "podman", log: "docker does not work here (this engine cannot enforce the memory limit", opened: []int64{1, 1, 0},
		},
		"a limit need not hold": {
			policy:  core.UnenforcedWarn,
			prepare: func(f *fleet) { f.worlds["docker"].fail["hold memory"] = errors.New("no") },
			want:    "docker", log: "using docker", opened: []int64{1, 0, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := auto(t, c.policy)
			c.prepare(f)
			got, err := f.backends.Default(t.Context())
			if err != nil || got != c.want {
				t.Fatalf("got %q, %v, want %q", got, err, c.want)
			}
			if !strings.Contains(f.log.String(), c.log) || strings.Count(f.log.String(), "\n") != 1 {
				t.Errorf("the log says %s", f.log.String())
			}
			if inUse := f.backends.InUse(); !slices.Equal(inUse, []string{c.want}) {
				t.Errorf("in use are %q", inUse)
			}
			for i, name := range f.names {
				if n := f.worlds[name].opened.Load(); n != c.opened[i] {
					t.Errorf("%s was started %d times", name, n)
				}
			}
		})
	}
}

// What was started only to be looked at ends before the server does.
func TestTheOthersAreStopped(t *testing.T) {
	f := auto(t, "")
	docker, podman := f.worlds["docker"], f.worlds["podman"]
	docker.fail["info"] = down("Docker")
	if _, err := f.backends.Default(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaits(t, "docker's end", func() bool { return docker.closed.Load() == 1 })
	if podman.closed.Load() != 0 {
		t.Error("the chosen one was stopped")
	}
	if _, err := f.backends.Get("docker"); err != nil || docker.opened.Load() != 2 {
		t.Errorf("asked for by name: %v, started %d times", err, docker.opened.Load())
	}
}

func awaits(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}

func TestNoneWorks(t *testing.T) {
	f := auto(t, "")
	f.worlds["docker"].fail["info"] = down("Docker")
	f.worlds["podman"].fail["installed"] = core.Errorf(core.ErrUnavailable, "it is not installed").WithHint("install it")
	f.worlds["gvisor"].fail["hold pids"] = errors.New("no")
	service := f.worlds["docker"].serviceOf(t, settings(), f.backends)
	_, err := service.RunOnce(t.Context(), request("x"), nil)
	want := `no backend works here:
- docker: Docker does not answer (start Docker)
- podman: it is not installed (install it)
- gvisor: this engine cannot enforce the pids limit (enable the control groups of the engine's machine, or set limits.unenforced to warn) (mend one of them and try again; the server need not be restarted)`
	if core.KindOf(err) != core.ErrUnavailable || err.Error() != want {
		t.Errorf("got %v", err)
	}
	f.worlds["docker"].breaks("info", nil)
	record, err := service.RunOnce(t.Context(), request("x"), nil)
	if err != nil || record.Backend != "docker" {
		t.Errorf("once mended: %v, on %q", err, record.Backend)
	}
}

func TestTheDefaultStays(t *testing.T) {
	f := auto(t, "")
	f.worlds["docker"].fail["info"], f.worlds["podman"].fail["info"] = down("Docker"), down("Podman")
	service := f.worlds["docker"].serviceOf(t, settings(), f.backends)
	for round := range 2 {
		record, err := service.RunOnce(t.Context(), request("x"), nil)
		if err != nil || record.Backend != "gvisor" {
			t.Errorf("round %d: %v, on %q", round, err, record.Backend)
		}
		f.worlds["docker"].breaks("info", nil) // too late
	}
	f.worlds["gvisor"].breaks("image", down("gVisor"))
	if _, err := service.RunOnce(t.Context(), request("x"), nil); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("it went elsewhere: %v", err)
	}
}

func TestNobodyWaitsForASearchForEver(t *testing.T) {
	f := auto(t, "")
	asked := make(chan struct{})
	f.worlds["docker"].asked = func(ctx context.Context) { close(asked); <-ctx.Done() }
	f.backends.Start()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.backends.Default(ctx); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("got %v", err)
	}
	waiting := make(chan error)
	go func() {
		_, err := f.backends.Default(context.Background())
		waiting <- err
	}()
	if err := f.backends.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-waiting; core.KindOf(err) != core.ErrCancelled {
		t.Errorf("a call while the server closes: %v", err)
	}
	if _, err := f.backends.Get("docker"); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("a call after it closed: %v", err)
	}
}

// One that the operator names is not asked first whether it works.
func TestANamedDefaultIsTakenAsItIs(t *testing.T) {
	f := newFleet(t, "", []string{"docker"}, "docker", "podman")
	f.worlds["docker"].fail["info"] = down("Docker")
	f.backends.Start()
	if name, err := f.backends.Default(t.Context()); name != "docker" || err != nil {
		t.Errorf("got %q, %v", name, err)
	}
	if inUse := f.backends.InUse(); !slices.Equal(inUse, []string{"docker"}) {
		t.Errorf("in use are %q", inUse)
	}
	if _, err := f.backends.Get("elsewhere"); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), "the backends are: docker, podman") {
		t.Errorf("got %v", err)
	}
}
