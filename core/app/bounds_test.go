package app_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// crowd runs 200 programs at once, and returns the most that went on and the most boxes that were there.
func crowd(t *testing.T, s app.Settings) (runs, boxes int) {
	t.Helper()
	w := newWorld()
	var mu sync.Mutex
	now := 0
	look := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		now += change
		there, _ := w.counts()
		runs, boxes = max(runs, now), max(boxes, there)
	}
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		look(1)
		time.Sleep(10 * time.Millisecond)
		look(-1)
		return core.Exit{}, nil
	}
	service := w.service(t, s)
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			r := request("x")
			r.Tenant = []string{"one", "two"}[n%2]
			if _, err := service.RunOnce(t.Context(), r, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return runs, boxes
}

// Each bound holds exactly, and none keeps anybody out for good.
func TestBoundsHoldExactly(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*app.Settings)
		runs, boxes int // 0: whatever
	}{
		"runs on a backend":   {func(s *app.Settings) { s.MaxConcurrent = 2 }, 2, 0},
		"boxes":               {func(s *app.Settings) { s.MaxBoxes = 2 }, 2, 2},
		"memory":              {func(s *app.Settings) { s.MaxMemory = 3*s.Limits.MemoryBytes - 1 }, 2, 2},
		"runs of each tenant": {func(s *app.Settings) { s.Quota.Runs = 1 }, 2, 0},
		"boxes of each":       {func(s *app.Settings) { s.Quota.Boxes = 1 }, 2, 2},
		"memory of each":      {func(s *app.Settings) { s.Quota.Memory = s.Limits.MemoryBytes }, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := settings()
				s.MaxConcurrent, s.MaxQueued, s.MaxWait = 200, 200, time.Hour
				c.change(&s)
				runs, boxes := crowd(t, s)
				if runs != c.runs || c.boxes > 0 && boxes != c.boxes {
					t.Errorf("at most %d ran in %d boxes, want %d and %d", runs, boxes, c.runs, c.boxes)
				}
			})
		})
	}
}

// Who waits for an image, or for packages, takes no place from others.
func TestWhoWaitsForAnImageTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := settings()
		s.MaxConcurrent = 1
		service := w.service(t, s)
		w.hang = "image"
		ctx, cancel := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = service.RunOnce(ctx, request("x"), nil) })
		synctest.Wait()
		w.hang = ""
		if _, err := service.RunOnce(t.Context(), request("y"), nil); err != nil {
			t.Error(err)
		}
		cancel()
		first.Wait()
	})
}

// A session's box counts as long as the session lives; a call in it needs a place to run, but no other box.
func TestSessionsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := settings()
		s.MaxBoxes, s.MaxConcurrent, s.MaxWait = 1, 1, 5*time.Second
		s.Sessions = app.SessionSettings{IdleTimeout: time.Hour, MaxIdleTimeout: time.Hour, MaxAge: time.Hour, MaxQueued: 1}
		service := w.service(t, s)
		session, err := service.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.RunInSession(t.Context(), session.ID, request("x"), nil); err != nil {
			t.Error(err)
		}
		_, err = service.RunOnce(t.Context(), request("x"), nil)
		if core.KindOf(err) != core.ErrExhausted || core.RetryAfterOf(err) == 0 || !strings.Contains(err.Error(), "sandboxes hold all of its places") {
			t.Errorf("got %v", err)
		}
		if err := service.StopSession(t.Context(), "local", session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := service.RunOnce(t.Context(), request("x"), nil); err != nil {
			t.Error(err)
		}
	})
}

// What a server finds counts as what it began: the box of a session that was kept, and a run that is taken up.
func TestWhatIsFoundCounts(t *testing.T) {
	for name, put := range map[string]func(*world){
		"a session": func(w *world) { w.kept(t) },
		"a run":     func(w *world) { w.orphaned(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				let := w.holding()
				put(w)
				s := sessionSettings()
				s.MaxBoxes, s.MaxWait = 1, 5*time.Second
				service := w.service(t, s)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go service.Sweep(ctx)
				synctest.Wait()
				if _, err := service.RunOnce(t.Context(), request("x"), nil); core.KindOf(err) != core.ErrExhausted {
					t.Errorf("a second box: %v", err)
				}
				let()
				_ = service.StopSession(t.Context(), "local", "s")
				if _, err := service.RunOnce(t.Context(), request("x"), nil); err != nil {
					t.Errorf("once it is gone: %v", err)
				}
			})
		})
	}
}
