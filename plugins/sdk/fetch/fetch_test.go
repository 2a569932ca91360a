package fetch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestOneFetchForAll(t *testing.T) {
	var g Group
	var fetches atomic.Int32
	release := make(chan struct{})
	fetch := func(_ context.Context, report func(core.Progress)) error {
		fetches.Add(1)
		report(core.Progress{Message: "half", Done: 1, Total: 2})
		<-release
		return errors.New("the one answer")
	}
	first, leave := context.WithCancel(t.Context())
	told := make(chan core.Progress, 100)
	left := make(chan error, 1)
	go func() { left <- g.Do(first, "k", func(p core.Progress) { told <- p }, fetch) }()
	if p := <-told; p.Done != 1 || p.Total != 2 {
		t.Errorf("progress %+v", p)
	}
	var others sync.WaitGroup
	joined := make(chan struct{}, 3)
	for range 3 {
		others.Go(func() {
			var once sync.Once
			err := g.Do(t.Context(), "k", func(core.Progress) { once.Do(func() { joined <- struct{}{} }) }, fetch)
			if err == nil || err.Error() != "the one answer" {
				t.Errorf("one who waited: %v", err)
			}
		})
	}
	for range 3 {
		<-joined
	}
	leave()
	if err := <-left; core.KindOf(err) != core.ErrCancelled {
		t.Errorf("one who left: %v", err)
	}
	close(release)
	others.Wait()
	if fetches.Load() != 1 {
		t.Errorf("%d fetches", fetches.Load())
	}
}

func TestNobodyWaits(t *testing.T) {
	var g Group
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	began := make(chan struct{})
	go func() { <-began; cancel() }()
	if err := g.Do(ctx, "k", nil, func(ctx context.Context, _ func(core.Progress)) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil
	}); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("got %v", err)
	}
	<-ended
}

// TestSilence: a fetch that stands still says nothing, so that its host can tell.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var told []int64
		err := g.Do(t.Context(), "k", func(p core.Progress) { told = append(told, p.Done) }, func(_ context.Context, report func(core.Progress)) error {
			report(core.Progress{Done: 1})
			time.Sleep(10 * Interval)
			report(core.Progress{Done: 2})
			time.Sleep(10 * Interval)
			report(core.Progress{Done: 2})
			time.Sleep(10 * Interval)
			return nil
		})
		if err != nil || !slices.Equal(told, []int64{1, 2}) {
			t.Errorf("told %v, %v", told, err)
		}
	})
}
