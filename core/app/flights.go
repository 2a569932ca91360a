package app

import (
	"context"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// flights lets callers that want the same environment share one install.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

type flight struct {
	cancel   context.CancelFunc
	done     chan struct{}
	waiting  int
	watchers map[int]func(core.Progress)
	result   core.Environment
	err      error
}

type installFunc = func(ctx context.Context, progress func(core.Progress)) (core.Environment, error)

func (f *flights) do(ctx context.Context, key string, progress func(core.Progress), work installFunc) (core.Environment, error) {
	shared, seat := f.board(ctx, key, progress, work)
	defer f.leave(key, shared, seat)
	select {
	case <-shared.done:
		return shared.result, shared.err
	case <-ctx.Done():
		return core.Environment{}, cancelled(ctx)
	}
}

func (f *flights) board(ctx context.Context, key string, progress func(core.Progress), work installFunc) (shared *flight, seat int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared = f.open[key]
	if shared == nil {
		shared = &flight{done: make(chan struct{}), watchers: map[int]func(core.Progress){}}
		flying, cancel := context.WithCancel(context.WithoutCancel(ctx))
		shared.cancel = cancel
		if f.open == nil {
			f.open = map[string]*flight{}
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

func (f *flights) fly(ctx context.Context, key string, shared *flight, work installFunc) {
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

// leave gives the seat back; the last one out ends the install. Whoever comes after that begins
// a new one.
func (f *flights) leave(key string, shared *flight, seat int) {
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
