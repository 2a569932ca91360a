package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Pool says how many boxes wait for runs. With Max 0 none does.
type Pool struct {
	Size        int           // of the default image on the default backend, always
	Max         int           // at all
	MaxMemory   int64         // bytes that all are taken to use together; 0 is no bound
	IdleTimeout time.Duration // how long boxes wait that nobody asks for
	MaxAge      time.Duration // how long one box waits
	Preload     []string      // Python modules
	Installers  int           // sets of boxes of each kind that wait for an installation
}

// What a waiting box is taken to use, in bytes: its agent and an interpreter, and the modules that the
// interpreter may have loaded. Measured: see docs/decisions/0016.
const (
	waitingMemory = 32 << 20
	modulesMemory = 128 << 20
)

const (
	// makingAtOnce bounds how many boxes are made in the background at the same time.
	makingAtOnce = 2
	// breather is how long the making of the next box waits after one was taken: the run that has begun
	// would be the one that it slows down.
	breather = 30 * time.Millisecond
	// claimMargin is what a box must live beyond the run's time limit: the run may be overdue, and its
	// files are collected.
	claimMargin = 2 * time.Minute
)

// pool keeps started boxes that wait for runs. Each box is used for one run, and nobody's before that.
type pool struct {
	settings  Pool
	pull      core.PullPolicy
	ports     Ports
	boxes     *boxes
	admission *admission
	closing   context.Context // ends the making of boxes
	wake      chan struct{}

	mu         sync.Mutex
	closed     bool
	checking   bool
	shelves    map[string]*shelf
	images     map[imageName]seenImage
	base       imageName // whose boxes always wait
	baseOn     *place    // nil as long as that is not known
	baseSpec   core.BoxSpec
	installer  func(*place, core.Image) kind // for installations there; nil if there are none
	installing int                           // installations under way
	installed  time.Time                     // when the last one ended
	making     int                           // in the background
	foreground int                           // creations that somebody waits for
}

func newPool(closing context.Context, ports Ports, s Settings, b *boxes, a *admission) *pool {
	return &pool{
		settings: s.Pool, pull: s.Pull, ports: ports, boxes: b, admission: a, closing: closing,
		wake: make(chan struct{}, 1), shelves: map[string]*shelf{}, images: map[imageName]seenImage{},
	}
}

// runs is the kind of box that waits for runs like this.
func (p *pool) runs(on *place, spec core.BoxSpec) kind {
	spec.Labels = core.Labels{Purpose: core.PurposeRun} // it is nobody's yet
	spec.Preload = p.settings.Preload
	return kind{on: on, spec: spec, boxes: 1, make: func(ctx context.Context) (*box, error) {
		return p.boxes.make(ctx, on, spec, p.settings.MaxAge)
	}}
}

// shelfOf returns the shelf for boxes of a kind.
func (p *pool) shelfOf(k kind) *shelf {
	key := k.key()
	found := p.shelves[key]
	if found == nil {
		found = &shelf{kind: k, name: key}
		p.shelves[key] = found
	}
	return found
}

// take returns a box that waits for such a run, or nil. It reaches neither box nor engine.
func (p *pool) take(on *place, spec core.BoxSpec, lifetime time.Duration) *box {
	if spec.Labels.Purpose != core.PurposeRun {
		return nil
	}
	return p.claim(p.runs(on, spec), lifetime)
}

// claim returns a box of a kind that waits, or nil, and notes that one was wanted.
func (p *pool) claim(k kind, lifetime time.Duration) *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.settings.Max == 0 {
		return nil
	}
	now := p.ports.Now()
	from := p.shelfOf(k)
	from.ask(now)
	taken := from.claim(now, lifetime+claimMargin, p.settings.MaxAge)
	p.stir()
	if taken == nil {
		p.ports.Log.Debug("no box waits for "+k.users(), "backend", k.on.name, "image", k.spec.Image)
		return nil
	}
	p.ports.Log.Debug("a waiting box was taken for "+k.users(), "backend", k.on.name, "box", taken.ID)
	return taken
}

// stir has the pool looked after soon.
func (p *pool) stir() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// giveWay makes room for a box that somebody waits for, and keeps the pool from making others until done
// is called.
func (p *pool) giveWay() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.foreground++
	for p.room().isShort() && p.evict() {
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.foreground--
		p.stir()
	}
}

// tend refills the pool until ctx ends.
func (p *pool) tend(ctx context.Context) {
	if p.settings.Max == 0 {
		return
	}
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		look := p.refill
		select {
		case <-ticker.C:
			look = func() { p.check(); p.refill() }
		case <-p.wake:
			pause(ctx, breather)
		case <-ctx.Done():
			return
		}
		_ = safely(p.ports.Log, "looked after the pool", func() error { look(); return nil }) // it is in the log
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// refill begins the making of boxes where they lack.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		next := p.neediest(p.ports.Now())
		if next == nil {
			return
		}
		next.making++
		p.making++
		p.boxes.work.do("filled the pool", func() { p.make(next) })
	}
}

// make makes a box and puts it on its shelf.
func (p *pool) make(s *shelf) {
	began := p.ports.Now()
	made, err := s.make(p.closing)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.making--
	p.making--
	now := p.ports.Now()
	switch {
	case err != nil:
		p.failed(s, now, err)
	case p.closed || p.shelves[s.name] != s || !p.room().covers(s.needs()):
		made.discard()
	default:
		s.put(&waiting{box: made, since: now}, now.Sub(began))
		p.ports.Log.Debug("a box waits for "+s.users(), "backend", s.on.name, "image", s.spec.Image, "box", made.ID)
	}
	p.stir()
}

// failed has the shelf wait before the next try, each time longer. An image or a volume that is gone will not
// come back by itself.
func (p *pool) failed(s *shelf, now time.Time, err error) {
	if p.closing.Err() != nil {
		return
	}
	level := p.ports.Log.Debug
	if wanted := !s.installs() || len(s.asked) > 0; wanted && s.failures == 0 { // nobody may ever install anything
		level = p.ports.Log.Warn
	}
	level("no box can be made to wait for "+s.users()+", which make their own", "backend", s.on.name, "image", s.spec.Image, "error", err)
	s.fail(now)
	if errors.Is(err, core.ErrNotFound) {
		delete(p.images, imageName{s.on.name, s.spec.Image})
		p.clear(s)
	}
}

// close lets no box wait any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.shelves {
		p.clear(s)
	}
}

// clear removes a shelf with its boxes.
func (p *pool) clear(s *shelf) {
	delete(p.shelves, s.name)
	for _, w := range s.waiting {
		w.discard()
	}
	s.waiting = nil
}

// stands reports whether a box can still be reached, as far as its guest knows without asking.
func stands(g execution.Guest) bool {
	s, knows := g.(execution.Standing)
	return !knows || s.Stands()
}
