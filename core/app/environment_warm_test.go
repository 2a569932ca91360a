package app_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

func nothing(core.Progress) {}

func set(packages ...string) core.EnvironmentSet {
	return core.EnvironmentSet{Packages: packages, Tenant: "local"}
}

// A run that asks for what was installed ahead installs nothing, in whatever order and spelling it asks.
func TestWarmEnvironmentIsFoundByRuns(t *testing.T) {
	w := newWorld()
	s := w.service(t, settings())
	first, err := s.WarmEnvironment(t.Context(), set("six", "Attrs"), nothing)
	if err != nil || first.Key == "" || len(first.Names) != 2 {
		t.Fatalf("got %+v, %v", first, err)
	}
	if again, err := s.WarmEnvironment(t.Context(), set("attrs", "six"), nothing); err != nil || again.Key != first.Key {
		t.Errorf("again: got %+v, %v", again, err)
	}
	r := request("import six")
	r.Dependencies = []string{"attrs", "six"}
	if _, err := s.RunOnce(t.Context(), r, nil); err != nil {
		t.Error(err)
	}
	if n := w.installs.Load(); n != 1 {
		t.Errorf("it was installed %d times", n)
	}
}

func TestWhatCannotBeWarm(t *testing.T) {
	w := newWorld()
	w.fail["image"] = core.Errorf(core.ErrUnavailable, "no registry")
	s := w.service(t, settings())
	for name, tt := range map[string]struct {
		set  core.EnvironmentSet
		want core.Kind
	}{
		"nothing":        {set(), core.ErrInvalid},
		"no requirement": {set("--option"), core.ErrInvalid},
		"no image":       {core.EnvironmentSet{Image: "Python", Packages: []string{"six"}}, core.ErrInvalid},
		"another image":  {core.EnvironmentSet{Image: "node", Packages: []string{"six"}}, core.ErrDenied},
		"no registry":    {set("six"), core.ErrUnavailable},
	} {
		if _, err := s.WarmEnvironment(t.Context(), tt.set, nothing); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
	if n := w.installs.Load(); n != 0 {
		t.Errorf("the installer ran %d times", n)
	}
}

// TestKeepWarm has one of three sets fail, and removes one: it comes back, and the failing one is tried again.
func TestKeepWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.install = func(context.Context) error {
			if w.installs.Load() == 2 {
				return core.Errorf(core.ErrDependency, "no such package")
			}
			return nil
		}
		s := w.service(t, settings())
		ctx, cancel := context.WithCancel(t.Context())
		go s.KeepWarm(ctx, []core.EnvironmentSet{set("six"), set("attrs"), set("idna")})
		w.wantInstalled(t, 10*time.Second, 3, 2)
		w.wantInstalled(t, 2*time.Minute, 4, 3)
		w.wantInstalled(t, time.Hour, 4, 3)
		w.forget(t)
		w.wantInstalled(t, time.Hour, 7, 3)
		cancel()
		w.forget(t)
		w.wantInstalled(t, 2*time.Hour, 7, 0)
	})
}

// wantInstalled waits, and wants so many installs to have been begun so far, and so many environments to be there.
func (w *world) wantInstalled(t *testing.T, after time.Duration, installs, there int) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	list, err := (*index)(w).List(t.Context())
	if got := int(w.installs.Load()); got != installs || len(list) != there || err != nil {
		t.Errorf("after %s more: %d installs, want %d; there are %d, want %d; %v", after, got, installs, len(list), there, err)
	}
}

func (w *world) forget(t *testing.T) {
	t.Helper()
	list, err := (*index)(w).List(t.Context())
	for _, e := range list {
		err = errors.Join(err, (*index)(w).Delete(t.Context(), e.Key))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Nothing is installed ahead while something runs.
func TestKeepWarmWaitsForRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		over := make(chan struct{})
		w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
			<-over
			return core.Exit{}, nil
		}
		s := w.service(t, settings())
		go func() { _, _ = s.RunOnce(t.Context(), request("x"), nil) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.KeepWarm(ctx, []core.EnvironmentSet{set("six")})
		w.wantInstalled(t, 9*time.Minute, 0, 0)
		close(over)
		w.wantInstalled(t, 5*time.Second, 1, 1)
	})
}
