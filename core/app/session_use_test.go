package app_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// TestOneServerDrivesASession: calls of two servers run one after the other, and each learns why it waits.
func TestOneServerDrivesASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kept(t)
		var mu sync.Mutex
		now, most, ran := 0, 0, 0
		count := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			now, most, ran = now+change, max(most, now+change), ran+max(change, 0)
		}
		w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
			count(1)
			defer count(-1)
			time.Sleep(time.Second)
			return core.Exit{}, nil
		}
		servers := []*app.Service{w.service(t, sessionSettings()), w.another(t, sessionSettings())}
		told := make(chan string, 100)
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				_, err := servers[n%2].RunInSession(t.Context(), "s", cell("x"), func(p core.Progress) { told <- p.Message })
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 1 || ran != 10 {
			t.Errorf("%d programs ran, %d at once", ran, most)
		}
		close(told)
		heard := false
		for message := range told {
			heard = heard || message == "waiting for the sandbox: another server of this installation runs a program in it"
		}
		if !heard {
			t.Error("nobody was told what it waits for")
		}
		synctest.Wait()
		if kept, err := w.sessions.Get(t.Context(), "local", "s"); err != nil || kept.Call != "" {
			t.Errorf("in the end it is %+v, %v", kept, err)
		}
	})
}

// TestASessionThatAnotherServerDrives stays its, whatever else is done with it; it is free once that server is gone.
func TestASessionThatAnotherServerDrives(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, one, other *app.Service) error{
		"a look at its files": func(t *testing.T, _, other *app.Service) error {
			_, err := other.ListFiles(t.Context(), core.FileRequest{Tenant: "local", Sandbox: "s"}, false)
			return err
		},
		"the other's end": func(t *testing.T, _, other *app.Service) error { return other.Close(t.Context()) },
		"a call that is withdrawn": func(t *testing.T, _, other *app.Service) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := other.RunInSession(ctx, "s", cell("x"), nil); core.KindOf(err) != core.ErrCancelled {
				t.Errorf("the call that waited: %v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.kept(t)
				let := w.holding()
				one, other := w.service(t, sessionSettings()), w.another(t, sessionSettings())
				r := cell("x")
				r.Background = true
				record, err := one.RunInSession(t.Context(), "s", r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if list, err := other.Sessions(t.Context(), "local"); err != nil || len(list) != 1 || !list[0].Busy {
					t.Errorf("the other server lists %+v, %v", list, err)
				}
				if err := do(t, one, other); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if kept, err := w.sessions.Get(t.Context(), "local", "s"); err != nil || kept.Server != "me" || kept.Call != record.RunID || kept.Lost != "" {
					t.Errorf("it is %+v, %v", kept, err)
				}
				let()
			})
		})
	}
	w := newWorld()
	w.kept(t)
	_ = w.sessions.Update(t.Context(), "s", func(kept *core.Session) error {
		kept.Call = "of the dead"
		return nil
	})
	if _, err := w.service(t, sessionSettings()).RunInSession(t.Context(), "s", cell("x"), nil); err != nil {
		t.Errorf("its server was killed: %v", err)
	}
}

// TestAMarkThatStays because the store took no change when the run ended is taken away later, and other servers go on.
func TestAMarkThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kept(t)
		one, other := w.service(t, sessionSettings()), w.another(t, sessionSettings())
		w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
			w.sessions.locks(core.Errorf(core.ErrUnavailable, "locked"))
			return core.Exit{}, nil
		}
		if _, err := one.RunInSession(t.Context(), "s", cell("x"), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.sessions.locks(nil)
		if kept, _ := w.sessions.Get(t.Context(), "local", "s"); kept.Call == "" {
			t.Fatal("the mark is gone: the test shows nothing")
		}
		if err := one.SweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept, _ := w.sessions.Get(t.Context(), "local", "s"); kept.Call != "" || kept.Lost != "" {
			t.Errorf("it is %+v", kept)
		}
		if _, err := other.RunInSession(t.Context(), "s", cell("x"), nil); err != nil {
			t.Errorf("the other server: %v", err)
		}
		w.sessions.locks(nil)
	})
}

// TestAMarkOfARunUnderWay stays, however often the store is looked through.
func TestAMarkOfARunUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kept(t)
		let := w.holding()
		defer let()
		s := w.service(t, sessionSettings())
		r := cell("x")
		r.Background = true
		record, err := s.RunInSession(t.Context(), "s", r, nil)
		if err == nil {
			err = s.SweepOnce(t.Context())
		}
		if kept, _ := w.sessions.Get(t.Context(), "local", "s"); err != nil || kept.Call != record.RunID {
			t.Errorf("it is %+v, %v", kept, err)
		}
	})
}

// TestACallWaitsForAnotherServer no longer than for a place, and changes nothing in the store meanwhile.
func TestACallWaitsForAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kept(t)
		s := sessionSettings()
		s.MaxWait, s.SyncLimit = 5*time.Second, 0
		service := w.service(t, s)
		w.alive["other"] = true
		err := w.sessions.Update(t.Context(), "s", func(kept *core.Session) error {
			kept.Server, kept.Call = "other", "its run"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		before, began := w.sessions.writes, time.Now()
		_, err = service.RunInSession(t.Context(), "s", cell("x"), nil)
		refused(t, err, 5*time.Second, "another server of this installation")
		if waited := time.Since(began); waited != s.MaxWait || w.sessions.writes != before {
			t.Errorf("it waited %v and changed the store %d times", waited, w.sessions.writes-before)
		}
	})
}
