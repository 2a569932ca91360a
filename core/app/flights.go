package app

import (
	"context"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// flights lets callers that want the same thing share the work for it.
type flights[T any] struct {
	mu   sync.Mutex
	open map[string]*flight[T]
}

type flight[T any] struct {
	cancel   context.CancelFunc
	done     chan struct{}
	waiting  int
	watchers map[int]func(core.Progress)
	result   T
	err      error
}

type work[T any] = func(ctx context.Context, progress func(core.Progress)) (T, error)

func (f *flights[T]) do(ctx context.Context, key string, progress func(core.Progress), work work[T]) (T, error) {
	shared, seat := f.board(ctx, key, progress, work)
	defer f.leave(key, shared, seat)
	select {
	case <-shared.done:
		return shared.result, shared.err
	case <-ctx.Done():
		var none T
		return none, cancelled(ctx)
	}
}

func (f *flights[T]) board(ctx context.Context, key string, progress func(core.Progress), work work[T]) (shared *flight[T], seat int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared = f.open[key]
	if shared == nil {
		shared = &flight[T]{done: make(chan struct{}), watchers: map[int]func(core.Progress){}}
		var flying context.Context
		flying, shared.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // leave calls it
		if f.open == nil {
			f.open = map[string]*flight[T]{}
		}
		f.open[key] = shared
		go f.fly(flying, key, shared, work)
	}
	seat = len(shared.watchers)
	for shared.watchers[seat] != nil {
		seat++
	}
	shared.waiting++
	shared.watchers[seat] = progress
	return shared, seat
}

func (f *flights[T]) fly(ctx context.Context, key string, shared *flight[T], work work[T]) {
	shared.result, shared.err = work(ctx, func(p core.Progress) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, watch := range shared.watchers {
			watch(p)
		}
	})
	f.mu.Lock()
	if f.open[key] == shared {
		delete(f.open, key)
	}
	f.mu.Unlock()
	close(shared.done)
}

// leave gives the seat back; the last one out ends the work. Whoever comes after that begins
// a new one.
func (f *flights[T]) leave(key string, shared *flight[T], seat int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(shared.watchers, seat)
	if shared.waiting--; shared.waiting > 0 {
		return
	}
	shared.cancel()
	if f.open[key] == shared {
		delete(f.open, key)
	}
}
