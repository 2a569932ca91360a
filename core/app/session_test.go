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
	if boxes, _ := w.counts(); boxes != 1 {
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
		if boxes, _ := w.counts(); boxes != 0 {
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

// TestAConnectionThatEnds takes its own session along, and nobody else's.
func TestAConnectionThatEnds(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	other := core.Request{Code: "x", Tenant: "bob", Client: "c1"}
	for _, r := range []core.Request{cell("x"), other} {
		if _, err := s.RunInSession(t.Context(), "", r, nil); err != nil {
			t.Fatal(err)
		}
	}
	named, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local", Name: "named"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing to end
		if err := s.EndClient(t.Context(), "local", "c1"); err != nil {
			t.Fatal(err)
		}
	}
	for owner, want := range map[string]int{"local": 1, "bob": 1} {
		if list, err := s.Sessions(t.Context(), owner); err != nil || len(list) != want {
			t.Errorf("%s has %d sessions, %v, want %d", owner, len(list), err, want)
		}
	}
	if _, err := s.Session(t.Context(), "local", named.ID); err != nil {
		t.Errorf("the named one is gone: %v", err)
	}
	if boxes, _ := w.counts(); boxes != 2 {
		t.Errorf("there are %d boxes, want 2", boxes)
	}
}

// TestSandboxesHoldAllPlaces: a call that makes a box without a run is answered in the time of one call, and told what
// holds the places.
func TestSandboxesHoldAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), sessionSettings()
		s.MaxBoxes, s.MaxWait, s.SyncLimit = 1, time.Hour, 45*time.Second
		w.looking = func(context.Context) error { return core.ErrUnsupported }
		service := w.service(t, s)
		if _, err := service.OpenSession(t.Context(), core.SessionRequest{Tenant: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
		for name, do := range map[string]func(owner string) error{
			"a sandbox": func(owner string) error {
				_, err := service.OpenSession(t.Context(), core.SessionRequest{Tenant: owner}, nil)
				return err
			},
			"one for a file": func(owner string) error {
				_, err := service.WriteFile(t.Context(), core.FileRequest{Tenant: owner, Client: "new", Path: "x"}, nil, nil)
				return err
			},
			"one for packages": func(owner string) error {
				_, err := service.OpenSession(t.Context(), core.SessionRequest{Tenant: owner, Dependencies: []string{"six"}}, nil)
				return err
			},
			"a search": func(owner string) error {
				_, err := service.SearchPackages(t.Context(), owner, "six")
				return err
			},
		} {
			for owner, hint := range map[string]string{"ann": "end one that you do not need with sandbox_stop", "bob": "they are other users'"} {
				began := time.Now()
				err := do(owner)
				if refused(t, err, time.Minute, "sandboxes hold all of its places"); !strings.Contains(core.HintOf(err), hint) {
					t.Errorf("%s for %s: the hint is %q", name, owner, core.HintOf(err))
				}
				if took := time.Since(began); took != 45*time.Second {
					t.Errorf("%s for %s took %s", name, owner, took)
				}
			}
		}
	})
}

// TestNamesThatAreIDs: no session gets a name by which another of its owner's is found.
func TestNamesThatAreIDs(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	open := func(owner, name string) (core.Session, error) {
		return s.OpenSession(t.Context(), core.SessionRequest{Tenant: owner, Name: name}, nil)
	}
	first, err := open("ann", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open("ann", first.ID); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), "the id of another sandbox") {
		t.Errorf("got %v", err)
	}
	if boxes, _ := w.counts(); boxes != 1 {
		t.Errorf("%d boxes were made", boxes)
	}
	if _, err := open("bob", first.ID); err != nil {
		t.Errorf("who has no such sandbox: %v", err)
	}
}
