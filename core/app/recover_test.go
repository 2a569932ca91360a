package app_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// orphaned puts the run r1 of a dead server, in a box that is there.
func (w *world) orphaned(t *testing.T) {
	t.Helper()
	w.boxes["box"] = core.Box{ID: "box", State: core.BoxRunning, Labels: core.Labels{Instance: "inst", Server: "dead", Purpose: core.PurposeRun}}
	known := core.Run{ID: "r1", Owner: "local", Backend: "fake", Box: "box", Server: "dead", State: core.RunUnderWay, Started: w.now.Add(-10 * time.Minute), Begun: w.now, Timeout: time.Minute}
	if err := w.runs.Put(t.Context(), known); err != nil {
		t.Fatal(err)
	}
}

// sweeping is a service that sweeps until stop is called.
func (w *world) sweeping(t *testing.T) (s *app.Service, stop func()) {
	t.Helper()
	s = w.service(t, sessionSettings())
	ctx, stop := context.WithCancel(t.Context())
	go s.Sweep(ctx)
	return s, stop
}

// TestATakeOverThatFails: while the store cannot say whose a run is, its box stays.
func TestATakeOverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphaned(t)
		w.runs.refuses(func(core.Run) error { return core.Errorf(core.ErrUnavailable, "locked") })
		s, stop := w.sweeping(t)
		defer stop()
		time.Sleep(time.Second)
		if boxes, _ := w.counts(); boxes != 1 {
			t.Error("the box was removed")
		}
		w.runs.refuses(nil)
		time.Sleep(time.Minute)
		if record, err := s.GetRun(t.Context(), "local", "r1", 0); err != nil || record.Status != core.StatusOK {
			t.Errorf("got %q, %v", record.Status, err)
		}
	})
}

// TestATakeOverWaitsAsLongAsTheProgramMayTake, however long its box took.
func TestATakeOverWaitsAsLongAsTheProgramMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphaned(t)
		w.run = func(ctx context.Context, _ core.RunSpec) (core.Exit, error) {
			pause, cancel := context.WithTimeout(ctx, 50*time.Second)
			defer cancel()
			<-pause.Done()
			return core.Exit{}, ctx.Err()
		}
		s, stop := w.sweeping(t)
		defer stop()
		time.Sleep(52 * time.Second)
		if record, err := s.GetRun(t.Context(), "local", "r1", 0); err != nil || record.Status != core.StatusOK {
			t.Errorf("got %q, %v", record.Status, err)
		}
	})
}

// TestATakeOverWhileTheEngineIsAway: only a box that is gone is a loss.
func TestATakeOverWhileTheEngineIsAway(t *testing.T) {
	away := core.Errorf(core.ErrUnavailable, "the engine is starting")
	for name, c := range map[string]struct {
		connect, list error
		lost          bool
	}{
		"away": {connect: away, list: away},
		"slow": {connect: away},
		"gone": {connect: core.Errorf(core.ErrNotFound, "no such box"), lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.orphaned(t)
				w.fail["connect"], w.fail["list"] = c.connect, c.list
				s, stop := w.sweeping(t)
				defer stop()
				time.Sleep(30 * time.Second)
				w.fails("connect", nil)
				w.fails("list", nil)
				time.Sleep(2 * time.Second)
				record, err := s.GetRun(t.Context(), "local", "r1", 0)
				if c.lost && core.KindOf(err) != core.ErrUnavailable || !c.lost && (err != nil || record.Status != core.StatusOK) {
					t.Errorf("got %q, %v", record.Status, err)
				}
			})
		})
	}
}

// TestATakenUpRunCountsFromItsStart: what its box says of its time is believed between what this server saw and what
// has passed since it began.
func TestATakenUpRunCountsFromItsStart(t *testing.T) {
	for name, c := range map[string]struct{ away, seen, told, want time.Duration }{
		"went on":           {away: 9 * time.Second, seen: 6 * time.Second, told: 15 * time.Second, want: 15 * time.Second},
		"ended meanwhile":   {away: time.Hour, told: 15 * time.Second, want: 15 * time.Second},
		"tells too little":  {away: 9 * time.Second, seen: 6 * time.Second, want: 6 * time.Second},
		"tells too much":    {away: 9 * time.Second, seen: 6 * time.Second, told: time.Hour, want: 15 * time.Second},
		"the clock was set": {away: -time.Hour, seen: 6 * time.Second, told: 15 * time.Second, want: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.orphaned(t)
				w.pass(c.away)
				w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
					w.pass(c.seen)
					return core.Exit{Duration: c.told}, nil
				}
				settings := sessionSettings()
				settings.Limits.CPUs = 2
				s := w.service(t, settings)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go s.Sweep(ctx)
				synctest.Wait()
				record, err := s.GetRun(t.Context(), "local", "r1", 0)
				if ran := record.Durations[core.PhaseRun]; err != nil || ran != c.want || record.Total != 10*time.Minute+c.want {
					t.Errorf("it ran for %v, of %v in all, %v; want %v", ran, record.Total, err, c.want)
				}
				if meters, err := s.Usage(t.Context(), "local"); err != nil || meters[3].Used != int64(2*c.want.Seconds()) {
					t.Errorf("the use is %+v, %v", meters, err)
				}
			})
		})
	}
}

// TestOneTakesARunOver: of two servers that see it at once, only one follows it.
func TestOneTakesARunOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphaned(t)
		var attached atomic.Int64
		w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
			attached.Add(1)
			time.Sleep(100 * time.Millisecond)
			return core.Exit{}, nil
		}
		var looks atomic.Int64
		w.runs.looked = func() { // nobody goes on before both have looked
			for looks.Add(1); looks.Load() < 2; {
				time.Sleep(time.Millisecond)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		one, two := w.service(t, sessionSettings()), w.another(t, sessionSettings())
		go one.Sweep(ctx)
		go two.Sweep(ctx)
		time.Sleep(time.Second)
		if attached.Load() != 1 {
			t.Errorf("it was taken up %d times", attached.Load())
		}
	})
}

// TestATakeOverWaitsForNoBackend but its own: calls to the run's session may come at once.
func TestATakeOverWaitsForNoBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphaned(t)
		w.asked = func(ctx context.Context) { <-ctx.Done() }
		s, stop := w.sweeping(t)
		defer stop()
		time.Sleep(time.Second)
		if record, err := s.GetRun(t.Context(), "local", "r1", 0); err != nil || record.Status != core.StatusOK {
			t.Errorf("got %q, %v", record.Status, err)
		}
	})
}

// TestATakenUpRunHasItsSession: calls wait until it has ended.
func TestATakenUpRunHasItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kept(t)
		known := core.Run{ID: "r1", Owner: "local", Session: "s", Backend: "fake", Box: "box", Server: "dead", State: core.RunUnderWay, Started: w.now, Begun: w.now, Timeout: time.Minute}
		if err := w.runs.Put(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var ended []string
		w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
			if spec.ID == "r1" {
				time.Sleep(30 * time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, string(spec.Code))
			return core.Exit{}, nil
		}
		s, stop := w.sweeping(t)
		defer stop()
		synctest.Wait()
		if list, err := s.Sessions(t.Context(), "local"); err != nil || len(list) != 1 || !list[0].Busy {
			t.Errorf("got %+v, %v", list, err)
		}
		if _, err := s.RunInSession(t.Context(), "s", cell("second"), nil); err != nil {
			t.Error(err)
		}
		if !slices.Equal(ended, []string{"", "second"}) {
			t.Errorf("in their order: %q", ended)
		}
	})
}
