package app_test

import (
	"testing"
	"testing/synctest"

	"github.com/boxwright/boxwright/core"
)

// TestOnlySomeResultsWaitForTheStore: while it takes nothing, the latest results are held, and no more than that.
func TestOnlySomeResultsWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held = 200
		w := newWorld()
		s := w.service(t, sessionSettings())
		w.runs.refuses(func(core.Run) error { return core.Errorf(core.ErrExhausted, "the disk is full") })
		var ids []string
		for range held + 5 {
			record, err := s.RunOnce(t.Context(), request("x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, record.RunID)
			w.pass(1)
			synctest.Wait()
		}
		for i, id := range ids {
			if _, err := s.GetRun(t.Context(), "local", id, 0); (err == nil) != (i >= 5) {
				t.Errorf("run %d: %v", i, err)
			}
		}
		w.runs.refuses(nil)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if kept := w.runs.list(func(core.Run) bool { return true }); len(kept) != held {
			t.Errorf("%d are kept in the end", len(kept))
		}
	})
}
