package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/boxwright/boxwright/core"
)

const (
	// checkEvery is how often the waiting boxes are looked after.
	checkEvery = 10 * time.Second
	// askLimit bounds one question to a box or an engine.
	askLimit = 5 * time.Second
	// imageTrust is how long a name is taken for the image that it was seen to be, while boxes of it wait. An
	// image that somebody tags anew is used by then at the latest.
	imageTrust = time.Minute
	// imageLook is how often the pool looks by itself, so that no run has to.
	imageLook = 20 * time.Second
)

// imageName is an image's name on a backend.
type imageName struct{ backend, ref string }

// seenImage is what the name stood for, and when that was seen.
type seenImage struct {
	core.Image
	on *place
	at time.Time
}

// warm has boxes wait for runs of the default image on the default backend, once it is there. It is not
// fetched for that: the first run does.
func (p *pool) warm(on *place, spec core.BoxSpec) {
	p.mu.Lock()
	p.base, p.baseOn, p.baseSpec = imageName{on.name, spec.Image}, on, spec
	p.mu.Unlock()
	p.check()
}

// image returns what a name stood for a moment ago, so that a run that finds its box need not ask the engine.
func (p *pool) image(on *place, ref string) (core.Image, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, known := p.images[imageName{on.name, ref}]
	if !known || p.pull == core.PullAlways || p.ports.Now().Sub(seen.at) > imageTrust {
		return core.Image{}, false
	}
	for _, s := range p.shelves {
		if s.on == on && s.spec.Image == ref && len(s.waiting) > 0 {
			return seen.Image, true
		}
	}
	return core.Image{}, false
}

// learn notes what a name stands for. Boxes of what it stood for before are of no use any more.
func (p *pool) learn(on *place, image core.Image) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings.Max == 0 || p.closed {
		return
	}
	name := imageName{on.name, image.Ref}
	p.images[name] = seenImage{image, on, p.ports.Now()}
	for _, s := range p.shelves {
		if s.on == on && s.spec.Image == image.Ref && s.spec.Digest != image.Digest {
			p.clear(s)
		}
	}
	if name == p.base {
		spec := p.baseSpec
		spec.Digest = image.Digest
		p.shelfOf(p.runs(on, spec))
	}
	p.stir()
}

// check discards what nobody needs, and asks those that wait how they are.
func (p *pool) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.settings.Max == 0 {
		return
	}
	now := p.ports.Now()
	for _, s := range p.shelves {
		p.trim(s, now)
	}
	p.forget(now)
	p.expectInstalls()
	if !p.checking {
		p.checking = true
		p.boxes.work.do("looked after the pool", p.probe)
	}
}

// trim discards the boxes of a shelf that are of no use, and those that are too many.
func (p *pool) trim(s *shelf, now time.Time) {
	s.weed(now, p.settings.MaxAge)
	target := p.target(s, now)
	for len(s.waiting) > target {
		s.waiting[0].discard()
		s.waiting = s.waiting[1:]
	}
	if target == 0 && s.making == 0 && !p.isBase(s) {
		delete(p.shelves, s.name)
	}
}

// expectInstalls has boxes wait for the first installation where most runs are. They come last: a server that has
// just begun, or does not last, has other things to do.
func (p *pool) expectInstalls() {
	if seen, known := p.images[p.base]; known && p.installer != nil && p.settings.Installers > 0 {
		p.shelfOf(p.installer(seen.on, seen.Image)).standing = true
	}
}

// forget drops the images whose runs nobody asks for any more.
func (p *pool) forget(now time.Time) {
	used := map[imageName]bool{}
	for _, s := range p.shelves {
		used[imageName{s.on.name, s.spec.Image}] = true
	}
	for name, seen := range p.images {
		if !used[name] && now.Sub(seen.at) > imageTrust {
			delete(p.images, name)
		}
	}
}

// probe asks each box whether it still answers, and each engine what the images' names stand for.
func (p *pool) probe() {
	boxes, images := p.questions()
	for _, w := range boxes {
		if !p.answers(w) {
			p.drop(w)
		}
	}
	for _, seen := range images {
		p.lookAt(seen)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checking = false
	p.stir()
}

func (p *pool) questions() (boxes []*waiting, images []seenImage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		boxes = append(boxes, s.waiting...)
	}
	for _, seen := range p.images {
		if p.ports.Now().Sub(seen.at) >= imageLook {
			images = append(images, seen)
		}
	}
	if _, known := p.images[p.base]; p.baseOn != nil && !known {
		images = append(images, seenImage{Image: core.Image{Ref: p.base.ref}, on: p.baseOn})
	}
	return boxes, images
}

// answers asks for the output of a run that the box does not know: an answer of any kind is one.
func (p *pool) answers(w *waiting) bool {
	ctx, cancel := context.WithTimeout(p.closing, askLimit)
	defer cancel()
	err := safely(p.ports.Log, "asked a waiting box", func() error {
		_, err := w.guest.ReadOutput(ctx, "waiting", core.Stdout, io.Discard, 1)
		return err
	})
	silent := []core.Kind{core.ErrUnavailable, core.ErrTimeout, core.ErrInternal}
	return p.closing.Err() != nil || !slices.Contains(silent, core.KindOf(err))
}

// drop discards a box unless somebody has taken it.
func (p *pool) drop(w *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		for i, other := range s.waiting {
			if other == w {
				s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
				w.discard()
				p.ports.Log.Debug("a waiting box does not answer any more", "backend", s.on.name, "box", w.ID)
				return
			}
		}
	}
}

// lookAt sees what an image's name stands for now. An engine that does not answer says nothing about that.
func (p *pool) lookAt(seen seenImage) {
	limit := askLimit
	if seen.Digest == "" {
		limit = stallLimit // it may have to be unpacked
	}
	ctx, cancel := context.WithTimeout(p.closing, limit)
	defer cancel()
	var image core.Image
	err := safely(p.ports.Log, "looked at an image", func() (err error) {
		image, err = seen.on.backend.EnsureImage(ctx, seen.Ref, core.PullNever, nil)
		return err
	})
	switch {
	case err == nil:
		p.learn(seen.on, image)
	case errors.Is(err, core.ErrNotFound):
		p.unlearn(imageName{seen.on.name, seen.Ref})
	}
}

// unlearn discards all boxes of an image that is gone.
func (p *pool) unlearn(name imageName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.images, name)
	for _, s := range p.shelves {
		if name == (imageName{s.on.name, s.spec.Image}) {
			p.clear(s)
		}
	}
}
