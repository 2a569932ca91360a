package app_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

// fails has a step fail from now on; nil lets it succeed again.
func (w *world) fails(step string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[step] = err
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
		if boxes, _, _ := w.counts(); boxes != 0 {
			t.Errorf("%d boxes are left", boxes)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
}
