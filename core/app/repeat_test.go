package app_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

// TestWhatTheStoreKnowsOfARepeat: a program that runs once more after an install is another one to its box, and the
// end of its first time is nobody's result.
func TestWhatTheStoreKnowsOfARepeat(t *testing.T) {
	for name, inSession := range map[string]bool{"alone": false, "in a session": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				specs := w.lacking("yaml")
				kept := func() core.Run {
					all, err := w.runs.UnderWay(t.Context())
					if err != nil || len(all) != 1 {
						t.Fatalf("the store has %+v, %v", all, err)
					}
					return all[0]
				}
				var first, between, second core.Run
				once := w.run
				w.run = func(ctx context.Context, spec core.RunSpec) (core.Exit, error) {
					if time.Sleep(time.Second); len(specs()) == 0 {
						first = kept()
					} else {
						second = kept()
					}
					return once(ctx, spec)
				}
				w.install = func(context.Context) error {
					between = kept()
					return nil
				}
				s := w.service(t, autoSettings())
				r := cell("import yaml")
				r.AutoInstall, r.Background = true, true
				begin := s.RunOnce
				if inSession {
					begin = func(ctx context.Context, r core.Request, progress func(core.Progress)) (core.Record, error) {
						return s.RunInSession(ctx, "", r, progress)
					}
				}
				record, err := begin(t.Context(), r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if record, err = s.GetRun(t.Context(), "local", record.RunID, time.Minute); err != nil || record.Status != core.StatusOK {
					t.Fatalf("got %+v, %v", record, err)
				}
				all := specs()
				if first.Box == "" || first.InBox != all[0].ID || between.Box != "" || second.Box == "" || second.InBox != all[1].ID {
					t.Errorf("first %+v\nbetween %+v\nsecond %+v\nof %s and %s", first, between, second, all[0].ID, all[1].ID)
				}
			})
		})
	}
}

// TestATakenUpRepeat is looked for under the id that its box knows; one that had not begun again is lost.
func TestATakenUpRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphaned(t)
		known, _ := w.runs.Get(t.Context(), "local", "r1")
		known.InBox = "again"
		unbegun := known
		unbegun.ID, unbegun.Box = "r2", ""
		for _, r := range []core.Run{known, unbegun} {
			if err := w.runs.Put(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
			if spec.ID != "again" {
				t.Errorf("the box was asked for %q", spec.ID)
			}
			return core.Exit{Code: 4}, nil
		}
		s, stop := w.sweeping(t)
		defer stop()
		synctest.Wait()
		if record, err := s.GetRun(t.Context(), "local", "r1", time.Minute); err != nil || record.ExitCode != 4 || record.RunID != "r1" {
			t.Errorf("got %+v, %v", record, err)
		}
		if _, err := s.GetRun(t.Context(), "local", "r2", time.Minute); core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
			t.Errorf("one that had not begun: %v", err)
		}
	})
}

// TestInputThatNobodyReads holds its sender for a while only, who is told how much was taken.
func TestInputThatNobodyReads(t *testing.T) {
	for name, c := range map[string]struct {
		takes int64
		fails error
		want  int64
		kind  core.Kind
	}{
		"some":               {3, nil, 3, ""},
		"none":               {0, nil, 0, ""},
		"closed after some":  {3, core.Errorf(core.ErrInvalid, "closed"), 3, core.ErrInvalid},
		"not in its box yet": {0, core.Errorf(core.ErrNotFound, "none"), 0, core.ErrUnavailable},
		"a box that is gone": {0, core.Errorf(core.ErrUnavailable, "gone"), 0, core.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				let := w.holding()
				defer let()
				w.feed = func(ctx context.Context, _ string, _ []byte, _ bool) (int64, error) {
					if c.fails != nil {
						return c.takes, c.fails
					}
					<-ctx.Done()
					return c.takes, core.ContextError(ctx)
				}
				s := w.service(t, sessionSettings())
				r := cell("x")
				r.Background, r.OpenStdin = true, true
				record, err := s.RunOnce(t.Context(), r, nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				taken, err := s.WriteStdin(t.Context(), "local", record.RunID, []byte("hello"), true)
				if taken != c.want || core.KindOf(err) != c.kind || time.Since(began) > 15*time.Second {
					t.Errorf("took %d in %s, %v", taken, time.Since(began), err)
				}
			})
		})
	}
}

// A run that waits for its place reads nothing yet; its sender does not wait with it.
func TestInputOfARunThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.creating = func() { time.Sleep(time.Minute) }
		limits := sessionSettings()
		limits.SyncLimit = time.Second
		s := w.service(t, limits)
		r := cell("x")
		r.OpenStdin, r.Background = true, true
		record, err := s.RunOnce(t.Context(), r, nil)
		if err != nil || record.Status != core.StatusRunning {
			t.Fatalf("got %+v, %v", record, err)
		}
		began := time.Now()
		taken, err := s.WriteStdin(t.Context(), "local", record.RunID, []byte("hello"), false)
		if taken != 0 || core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" || time.Since(began) > 15*time.Second {
			t.Errorf("took %d in %s, %v", taken, time.Since(began), err)
		}
	})
}
