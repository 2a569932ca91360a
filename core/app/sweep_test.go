package app_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// fails has a step fail from now on; nil lets it succeed again.
func (w *world) fails(step string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[step] = err
}

// another is a second server of the installation, with the same engine and stores.
func (w *world) another(t *testing.T, s app.Settings) *app.Service {
	t.Helper()
	w.alive["you"] = true
	backends := app.NewBackends([]app.Source{w.source("fake")}, app.Preference{Names: []string{"fake"}}, discard())
	backends.Start()
	service := app.New(app.Ports{
		Backends: backends, Guests: w, Artifacts: (*files)(w), Installer: w, Index: (*index)(w), Sessions: w.sessions, Runs: w.runs, Usage: &usageStore{},
		Instance: "inst", Server: "you", Alive: func(server string) bool { return w.alive[server] },
		Now: w.time, NewID: w.newID, Log: discard(),
	}, s)
	t.Cleanup(func() {
		_ = service.Close(context.Background())
		_ = backends.Close(context.Background())
	})
	return service
}

// TestWhatAnotherServerRemoved: a session that another server stops does not count here any more.
func TestWhatAnotherServerRemoved(t *testing.T) {
	w := newWorld()
	limits := sessionSettings()
	limits.MaxBoxes, limits.MaxWait = 1, time.Second
	one, two := w.service(t, limits), w.another(t, limits)
	session, err := one.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.StopSession(t.Context(), "local", session.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if err := one.SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	if w.guests != 0 {
		t.Errorf("%d streams are open", w.guests)
	}
	w.mu.Unlock()
	if _, err := one.RunOnce(t.Context(), cell("x"), nil); err != nil {
		t.Error(err)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseWaitsForTheSweep, which uses the stores.
func TestCloseWaitsForTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var reading atomic.Bool
		w.runs.looked = func() {
			reading.Store(true)
			time.Sleep(time.Second)
			reading.Store(false)
		}
		s := w.service(t, settings())
		go s.Sweep(t.Context())
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil || reading.Load() {
			t.Errorf("closed while it reads: %v, %v", reading.Load(), err)
		}
	})
}

// TestSweepTakesWhatCouldNotBeRemoved: an engine that is away for longer than a removal tries keeps no box.
func TestSweepTakesWhatCouldNotBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.service(t, settings())
		w.fails("destroy", core.Errorf(core.ErrUnavailable, "the engine restarts"))
		if _, err := s.RunOnce(t.Context(), request("x"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.fails("destroy", nil)
		if err := s.SweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if boxes, _ := w.counts(); boxes != 0 {
			t.Errorf("%d boxes are left", boxes)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
}
