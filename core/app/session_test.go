package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

func sessionSettings() app.Settings {
	s := settings()
	s.Interpreters = core.DefaultInterpreters()
	s.SyncLimit, s.KeepRuns = time.Minute, time.Hour
	s.Sessions = app.SessionSettings{IdleTimeout: 30 * time.Minute, MaxIdleTimeout: time.Hour, MaxAge: 2 * time.Hour, MaxQueued: 60}
	return s
}

func cell(code string) core.Request { return core.Request{Code: code, Tenant: "local", Client: "c1"} }

// TestOneSessionForAConnection: calls without an id share one, also the first two.
func TestOneSessionForAConnection(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := s.RunInSession(t.Context(), "", cell("x"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if boxes, _, _ := w.counts(); boxes != 1 {
		t.Errorf("there are %d boxes", boxes)
	}
	if _, err := s.RunInSession(t.Context(), "", core.Request{Code: "x", Tenant: "local", Client: "c2"}, nil); err != nil {
		t.Error(err)
	}
	list, err := s.Sessions(t.Context(), "local")
	if err != nil || len(list) != 2 {
		t.Errorf("there are %d sessions, %v", len(list), err)
	}
	for _, spec := range w.specs {
		if spec.Labels.Purpose != core.PurposeSession || spec.Labels.Tenant != "local" {
			t.Errorf("a box is labelled %+v", spec.Labels)
		}
	}
}

// TestSessionQueue: one call at a time, in the order in which they came; the queue is bounded and tells places.
func TestSessionQueue(t *testing.T) {
	w := newWorld()
	limits := sessionSettings()
	limits.Sessions.MaxQueued = 2
	s := w.service(t, limits)
	hold, order := make(chan struct{}), make(chan string, 9)
	running := make(chan struct{}, 9)
	w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
		running <- struct{}{}
		<-hold
		order <- string(spec.Code)
		return core.Exit{}, nil
	}
	session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	places := make(chan string, 99)
	for i := range 3 {
		queued := make(chan struct{})
		var once sync.Once
		all.Go(func() {
			_, err := s.RunInSession(t.Context(), session.ID, cell(fmt.Sprint(i)), func(p core.Progress) {
				if strings.HasPrefix(p.Message, "waiting for the sandbox") {
					places <- p.Message
					once.Do(func() { close(queued) })
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			<-running
		} else {
			<-queued
		}
	}
	if _, err := s.RunInSession(t.Context(), session.ID, cell("3"), nil); !errors.Is(err, core.ErrExhausted) {
		t.Errorf("a fourth call got %v", err)
	}
	close(hold)
	all.Wait()
	for i := range 3 {
		if got := <-order; got != fmt.Sprint(i) {
			t.Errorf("call %s ran as number %d", got, i)
		}
	}
	if one, two := <-places, <-places; !strings.Contains(one, "1 before") || !strings.Contains(two, "2 before") {
		t.Errorf("the places were told as %q, %q", one, two)
	}
}

// TestSessionsAreTheirOwners: somebody else's id is not found, in every use case.
func TestSessionsAreTheirOwners(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local", Name: "mine"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{session.ID, "mine"} {
		_, run := s.RunInSession(t.Context(), id, core.Request{Code: "x", Tenant: "other"}, nil)
		_, inspect := s.Inspect(t.Context(), "other", id)
		stop := s.StopSession(t.Context(), "other", id)
		for _, err := range []error{run, inspect, stop} {
			if core.KindOf(err) != core.ErrNotFound {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if list, _ := s.Sessions(t.Context(), "other"); len(list) != 0 {
		t.Errorf("another sees %d", len(list))
	}
	record, err := s.RunInSession(t.Context(), "mine", cell("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetRun(t.Context(), "other", record.RunID, 0); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("another's run: %v", err)
	}
}

// TestSessionsEnd: by time, with a reason that is told to whoever asks next, and their boxes go.
func TestSessionsEnd(t *testing.T) {
	for why, pass := range map[string]time.Duration{"had not been used for 30m0s": 31 * time.Minute, "the age of 2h0m0s": 3 * time.Hour} {
		w := newWorld()
		s := w.service(t, sessionSettings())
		session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(pass)
		if err := s.SweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err = s.RunInSession(t.Context(), session.ID, cell("x"), nil)
			if !errors.Is(err, core.ErrSessionExpired) || !strings.Contains(err.Error(), why) {
				t.Errorf("got %v, want %q", err, why)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if boxes, _, _ := w.counts(); boxes != 0 {
			t.Errorf("%d boxes are left", boxes)
		}
	}
}

// kept is the box of the session s that a dead server has left.
func (w *world) kept(t *testing.T) core.Box {
	t.Helper()
	box := core.Box{ID: "box", State: core.BoxRunning, Created: w.now, Labels: core.Labels{Instance: "inst", Server: "dead", Purpose: core.PurposeSession}}
	w.boxes["box"] = box
	kept := core.Session{ID: "s", Owner: "local", Backend: "fake", Box: "box", Server: "dead", Created: w.now, Used: w.now, IdleTimeout: time.Hour, MaxAge: time.Hour}
	if err := w.sessions.Add(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	return box
}

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
			if boxes, _, _ := w.counts(); boxes != 1 {
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
					if boxes, _, _ := w.counts(); boxes == 0 {
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
				if boxes, _, _ := w.counts(); boxes != 0 {
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

// TestASessionIsUsedAsSoonAsItIsKnown: whoever is quicker than its maker leaves no stream open.
func TestASessionIsUsedAsSoonAsItIsKnown(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	w.sessions.added = func(session core.Session) {
		if _, err := s.RunInSession(t.Context(), session.ID, cell("x"), nil); err != nil {
			t.Error(err)
		}
	}
	session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StopSession(t.Context(), "local", session.ID); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.guests != 0 {
		t.Errorf("%d streams are open", w.guests)
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

// TestABoxThatHangs is given up after a while, and keeps nobody for ever; it may answer later.
func TestABoxThatHangs(t *testing.T) {
	run := func(ctx context.Context, s *app.Service) error {
		r := cell("x")
		r.Files = []core.Input{{Name: "a", Content: []byte("x")}}
		_, err := s.RunInSession(ctx, "s", r, nil)
		return err
	}
	inspect := func(ctx context.Context, s *app.Service) error {
		_, err := s.Inspect(ctx, "local", "s")
		return err
	}
	for name, c := range map[string]struct {
		step string
		do   func(context.Context, *app.Service) error
	}{
		"dial": {"connect", run}, "upload": {"write", run}, "inspect": {"variables", inspect}, "dial to inspect": {"connect", inspect},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.kept(t)
				limits := sessionSettings()
				limits.SyncLimit, limits.MaxConcurrent = 0, 1
				s := w.service(t, limits)
				w.hang = c.step
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := c.do(ctx, s); core.KindOf(err) != core.ErrUnavailable {
					t.Errorf("got %v", err)
				}
				w.hang = ""
				if err := run(ctx, s); err != nil {
					t.Errorf("later: %v", err)
				}
			})
		})
	}
}

// TestAHangingDialKeepsNobody from ending the session.
func TestAHangingDialKeepsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kept(t)
		s := w.service(t, sessionSettings())
		w.hang = "connect"
		asked := make(chan error)
		go func() {
			_, err := s.Inspect(t.Context(), "local", "s")
			asked <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := s.StopSession(t.Context(), "local", "s"); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("it took %s: %v", time.Since(began), err)
		}
		if err := <-asked; err == nil {
			t.Error("the variables of an ended sandbox were told")
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

// TestSweepLeavesSessions: a box of a session stays whichever server made it; one that no store knows goes.
func TestSweepLeavesSessions(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	box := w.kept(t)
	_, _ = s.RunOnce(t.Context(), cell("x"), nil) // the backend is in use
	if err := s.SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RunInSession(t.Context(), "s", cell("x"), nil); err != nil {
		t.Errorf("the session of a dead server: %v", err)
	}
	_ = w.sessions.Remove(t.Context(), "s")
	box.ID = "stray"
	w.mu.Lock()
	w.boxes["stray"] = box
	w.mu.Unlock()
	if err := s.SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.boxes["stray"]; there {
		t.Error("a box whose session nobody knows is left")
	}
}
