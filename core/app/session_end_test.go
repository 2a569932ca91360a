package app_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// TestASessionThatIsTakenUpAtTheLastMoment: another server begins to use it after this one has read that it is over.
func TestASessionThatIsTakenUpAtTheLastMoment(t *testing.T) {
	for name, end := range map[string]func(*app.Service) error{
		"idle":    func(s *app.Service) error { return s.SweepOnce(t.Context()) },
		"closing": func(s *app.Service) error { return s.Close(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s := w.service(t, sessionSettings())
			_ = w.another(t, sessionSettings())
			w.kept(t)
			use := func(used time.Time, server string) func() {
				return func() {
					_ = w.sessions.Update(t.Context(), "s", func(kept *core.Session) error {
						kept.Used, kept.Server = used, server
						return nil
					})
				}
			}
			if name == "idle" {
				use(w.now.Add(-2*time.Hour), "dead")()
			}
			w.sessions.listed = use(w.now, "you")
			if err := end(s); err != nil {
				t.Error(err)
			}
			w.sessions.listed = nil
			if kept, err := w.sessions.Get(t.Context(), "local", "s"); err != nil || kept.Lost != "" {
				t.Errorf("it is %+v, %v", kept, err)
			}
			if boxes, _ := w.counts(); boxes != 1 {
				t.Error("its box is gone")
			}
		})
	}
}

// TestTheEndOfASessionSparesItsRun: code that is told to end has time for it, but not for ever.
func TestTheEndOfASessionSparesItsRun(t *testing.T) {
	stopIt := func(ctx context.Context, s *app.Service, id string) error { return s.StopSession(ctx, "local", id) }
	for name, c := range map[string]struct {
		takes time.Duration
		end   func(ctx context.Context, s *app.Service, id string) error
		want  string
	}{
		"stop":  {2 * time.Second, stopIt, "so far"},
		"close": {2 * time.Second, func(ctx context.Context, s *app.Service, _ string) error { return s.Close(ctx) }, "so far"},
		"never": {time.Hour, stopIt, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.run = func(ctx context.Context, _ core.RunSpec) (core.Exit, error) {
					<-ctx.Done()
					time.Sleep(c.takes)
					if boxes, _ := w.counts(); boxes == 0 {
						return core.Exit{}, core.Errorf(core.ErrUnavailable, "the box was lost")
					}
					return core.Exit{Cancelled: true, Stdout: core.Output{Head: []byte("so far"), Total: 6}}, nil
				}
				s := w.service(t, sessionSettings())
				r := cell("x")
				r.Background = true
				record, err := s.RunInSession(t.Context(), "", r, nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := c.end(t.Context(), s, record.Session); err != nil || time.Since(began) > 10*time.Second {
					t.Errorf("it took %s: %v", time.Since(began), err)
				}
				if boxes, _ := w.counts(); boxes != 0 {
					t.Error("the box is left")
				}
				time.Sleep(c.takes)
				if got, _ := s.GetRun(t.Context(), "local", record.RunID, 0); string(got.Stdout.Head) != c.want {
					t.Errorf("got %q", got.Stdout.Head)
				}
			})
		})
	}
}

// TestWaitingIsNotIdle: a session lives on while its call waits for a place to run.
func TestWaitingIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		let := w.holding()
		limits := sessionSettings()
		limits.MaxConcurrent, limits.MaxWait, limits.SyncLimit = 1, time.Hour, 0
		s := w.service(t, limits)
		idle := 10 * time.Second
		session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local", IdleTimeout: &idle}, nil)
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 2)
		go func() { _, err := s.RunOnce(t.Context(), cell("x"), nil); results <- err }()
		synctest.Wait()
		go func() { _, err := s.RunInSession(t.Context(), session.ID, cell("x"), nil); results <- err }()
		for range 30 {
			time.Sleep(2 * time.Second)
			w.pass(2 * time.Second)
			synctest.Wait()
			if err := s.SweepOnce(t.Context()); err != nil {
				t.Error(err)
			}
		}
		let()
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestInspectTellsThatASessionIsOver.
func TestInspectTellsThatASessionIsOver(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	delete(w.boxes, session.Box)
	w.fail["variables"] = core.Errorf(core.ErrUnavailable, "the stream was lost")
	w.mu.Unlock()
	if _, err := s.Inspect(t.Context(), "local", session.ID); core.KindOf(err) != core.ErrSessionExpired {
		t.Errorf("got %v", err)
	}
}

// TestASessionWhoseBoxDied: the record says once what is lost.
func TestASessionWhoseBoxDied(t *testing.T) {
	for name, c := range map[string]struct {
		exit core.Exit
		err  error
		want string
	}{
		"box":         {core.Exit{}, core.Errorf(core.ErrUnavailable, "lost"), "the box itself ran out of memory and ended: what the program printed and wrote is lost"},
		"interpreter": {core.Exit{StateLost: true}, nil, "the interpreter of the sandbox ended: its variables and imports are gone, its files are still there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s := w.service(t, sessionSettings())
			session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				box := w.boxes[session.Box]
				box.OOMKilled = c.err != nil
				w.boxes[session.Box] = box
				return c.exit, c.err
			}
			record, err := s.RunInSession(t.Context(), session.ID, cell("x"), nil)
			if err != nil || len(record.Warnings) != 1 || record.Warnings[0] != c.want {
				t.Errorf("got %q, %v", record.Warnings, err)
			}
		})
	}
}
