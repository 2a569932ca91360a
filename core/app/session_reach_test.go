package app_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

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
