package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// boxes makes boxes and sees to it that each one goes again, whatever happens to the call that
// asked for it. Removal is off the request's path.
type boxes struct {
	ports Ports
	pool  *pool
	zones zones

	mu     sync.Mutex
	known  map[string]*knownBox // by id; on any backend, as two may share an engine
	making int                  // creations under way
	// suspected are the backends where a creation failed in a way that may have left a box, and no
	// sweep has looked since.
	suspected map[string]bool
	wake      chan struct{} // has the sweep look soon
	work      crew          // runs, installs, creations and removals under way
}

// lifeMargin is what a box may live beyond the work it was made for, before anybody may remove it.
const lifeMargin = 10 * time.Minute

// abandonLimit is how long a creation goes on that nobody waits for any more.
const abandonLimit = 3 * time.Second

func newBoxes(ports Ports) *boxes {
	return &boxes{ports: ports, work: crew{log: ports.Log}, known: map[string]*knownBox{}, suspected: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// box is a started box with its guest.
type box struct {
	core.Box
	guest   execution.Guest
	outfit  *outfit // that it is a part of, if it waited for an installation
	discard func()  // ends it, in the background
	remove  func(ctx context.Context) error
}

// boxSpec is the box of a run.
func (s Settings) boxSpec(image, digest string) core.BoxSpec {
	return core.BoxSpec{
		Image: image, Digest: digest, Limits: s.Limits, Unenforced: s.Unenforced,
		Labels: core.Labels{Purpose: core.PurposeRun},
	}
}

// connectLimit bounds making a box, and each use of one that should not take long: an engine that hangs must not hang the caller.
const connectLimit = 2 * time.Minute

// patiently does something with a box, which is given up if it hangs.
func patiently(ctx context.Context, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	err := do(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return core.Errorf(core.ErrUnavailable, "the box did not answer within %s", connectLimit).
			WithHint("try once more; the server's log may say more")
	}
	return err
}

// dial connects to the agent of a box that was there a moment ago.
func (s *Service) dial(ctx context.Context, on *place, box string) (guest execution.Guest, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		guest, err = s.ports.Guests.Connect(ctx, on.backend, box)
		return err
	})
	return guest, err
}

// open returns a box that lives for the given time at least: one that waits, or else a new one.
func (b *boxes) open(ctx context.Context, on *place, spec core.BoxSpec, lifetime time.Duration) (*box, error) {
	if waiting := b.pool.take(on, spec, lifetime); waiting != nil {
		return waiting, nil
	}
	defer b.pool.giveWay()()
	return b.make(ctx, on, spec, lifetime)
}

// make makes a box that lives for the given time at the most and connects to its agent.
func (b *boxes) make(ctx context.Context, on *place, spec core.BoxSpec, lifetime time.Duration) (*box, error) {
	opening, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	made, err := b.connected(opening, on, spec, lifetime)
	if err != nil && opening.Err() != nil && ctx.Err() == nil {
		return nil, core.Errorf(core.ErrUnavailable, "the backend %s did not make a box within %s", on.name, connectLimit).
			WithHint("try once more; the server's log may say more")
	}
	return made, err
}

func (b *boxes) connected(ctx context.Context, on *place, spec core.BoxSpec, lifetime time.Duration) (*box, error) {
	spec.Labels = b.labels(spec.Labels, lifetime)
	b.work.join()
	defer b.work.leave()
	made, err := b.create(ctx, on, spec)
	if err != nil {
		return nil, err
	}
	guest, err := b.connect(ctx, on, made.ID)
	if err != nil {
		b.discard(on, made.ID)
		if ctx.Err() != nil {
			return nil, cancelled(ctx)
		}
		return nil, fmt.Errorf("the box's agent does not answer: %w", err)
	}
	return &box{
		Box:   made,
		guest: guest,
		discard: sync.OnceFunc(func() {
			b.close(guest)
			b.discard(on, made.ID)
		}),
		remove: func(ctx context.Context) error {
			b.close(guest)
			return b.destroy(ctx, on, made.ID)
		},
	}, nil
}

// create makes a box to the end although ctx may end before, but for abandonLimit at the most: an answer
// that nobody waits for any more would be a box that nobody knows. One that comes too late is removed.
func (b *boxes) create(ctx context.Context, on *place, spec core.BoxSpec) (core.Box, error) {
	if ctx.Err() != nil {
		return core.Box{}, cancelled(ctx)
	}
	type result struct {
		box core.Box
		err error
	}
	results := make(chan result)
	b.work.do("made a box", func() {
		b.begin()
		defer b.end()
		making, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(abandonLimit, cancel) })()
		box, err := b.createWithZone(making, on, spec)
		if err == nil {
			b.remember(on.name, box.ID)
		} else if making.Err() != nil || errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrInternal) {
			b.suspect(on.name)
		}
		select {
		case results <- result{box, err}:
		case <-ctx.Done():
			if err == nil {
				b.discard(on, box.ID)
			}
		}
	})
	select {
	case r := <-results:
		return r.box, r.err
	case <-ctx.Done():
		return core.Box{}, cancelled(ctx)
	}
}

// connect is the first stream to a new box.
func (b *boxes) connect(ctx context.Context, on *place, box string) (guest execution.Guest, err error) {
	err = safely(b.ports.Log, "connected to a box", func() error {
		guest, err = b.ports.Guests.Connect(ctx, on.backend, box)
		return err
	})
	return guest, err
}

func (b *boxes) labels(l core.Labels, lifetime time.Duration) core.Labels {
	l.Instance, l.Server = b.ports.Instance, b.ports.Server
	l.Expires = b.ports.Now().Add(lifetime + lifeMargin)
	return l
}

func (b *boxes) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.making++
}

func (b *boxes) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.making--
}

// suspect has the sweep look soon: a plugin that died while it made a box may have left it.
func (b *boxes) suspect(backend string) {
	b.mu.Lock()
	b.suspected[backend] = true
	b.mu.Unlock()
	b.look()
}

// look has the sweep look soon.
func (b *boxes) look() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// cleared says that a sweep has removed all strays of a backend. It counts only if none was spared.
func (b *boxes) cleared(backend string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.making == 0 {
		delete(b.suspected, backend)
	}
}

// suspects lists the backends that no sweep has cleared.
func (b *boxes) suspects() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.suspected))
}
