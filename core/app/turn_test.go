package app

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/boxwright/boxwright/core"
)

// TestTurnsLeaveNothing: connections come and go, and none is remembered.
func TestTurnsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions()
		leave, err := s.turn(t.Context(), "c", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error)
		go func() {
			_, err := s.turn(ctx, "c", 1)
			waits <- err
		}()
		synctest.Wait()
		if _, err := s.turn(ctx, "c", 1); core.KindOf(err) != core.ErrExhausted || core.RetryAfterOf(err) <= 0 {
			t.Errorf("one too many: %v", err)
		}
		cancel()
		if err := <-waits; core.KindOf(err) != core.ErrCancelled {
			t.Errorf("one that gives up: %v", err)
		}
		if len(s.opening) != 1 {
			t.Error("the queue is forgotten while somebody is in it")
		}
		leave()
		if len(s.opening) != 0 {
			t.Errorf("%d are remembered", len(s.opening))
		}
	})
}
