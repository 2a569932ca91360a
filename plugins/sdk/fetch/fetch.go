// Package fetch lets all who want one thing at the same time share one fetch of it, each told of
// its progress. It knows nothing of what is fetched.
package fetch

import (
	"context"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Interval is how often a caller hears of a fetch at most.
const Interval = 200 * time.Millisecond

// Group holds the fetches that go on. The zero value is ready.
type Group struct {
	mu      sync.Mutex
	running map[string]*flight
}

// flight is one fetch. It is cancelled when nobody waits for it any more.
type flight struct {
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // valid once done is closed
	waiters int   // guarded by Group.mu

	mu  sync.Mutex
	now core.Progress
}

// Do runs fetch for key, or waits for one that goes on, and returns its error; when ctx ends, it
// returns core.ErrCancelled or core.ErrTimeout at once. fetch outlives the caller that happened
// to come first; its ctx ends when nobody waits any more, and it tells report how far it is.
// progress, which may be nil, gets that when it has changed, at most every Interval: a fetch that
// stands still is silent.
func (g *Group) Do(ctx context.Context, key string, progress func(core.Progress), fetch func(ctx context.Context, report func(core.Progress)) error) error {
	running := g.join(ctx, key, fetch)
	defer g.leave(key, running)
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	var told core.Progress
	for {
		select {
		case <-running.done:
			return running.err
		case <-ctx.Done():
			return core.ContextError(ctx)
		case <-ticker.C:
			if now := running.progress(); progress != nil && now != told {
				told = now
				progress(now)
			}
		}
	}
}

func (g *Group) join(ctx context.Context, key string, fetch func(context.Context, func(core.Progress)) error) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	running, ok := g.running[key]
	if !ok {
		fetchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		running = &flight{cancel: cancel, done: make(chan struct{})}
		if g.running == nil {
			g.running = map[string]*flight{}
		}
		g.running[key] = running
		go func() {
			defer cancel()
			running.err = fetch(fetchCtx, running.report)
			g.mu.Lock()
			g.forget(key, running)
			g.mu.Unlock()
			close(running.done)
		}()
	}
	running.waiters++
	return running
}

func (g *Group) leave(key string, running *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	running.waiters--
	if running.waiters == 0 {
		running.cancel()
		g.forget(key, running)
	}
}

// forget needs the lock.
func (g *Group) forget(key string, running *flight) {
	if g.running[key] == running {
		delete(g.running, key)
	}
}

func (f *flight) report(p core.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = p
}

func (f *flight) progress() core.Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}
