package app

import (
	"context"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// errand is a courier whose box is there before it is sent: it does nothing until then.
type errand struct {
	spec    core.BoxSpec
	volume  string    // what it keeps
	waiting *box      // that was made for it; nil if one has to be made
	made    chan *box // gets the box, or nil if there is none
	call    sync.Once
}

// prepare says what the courier will need.
func (i *install) prepare(set *outfit) *errand {
	return &errand{
		spec: courierSpec(i.settings, i.image, i.zone.Volume, set.volume), volume: set.volume, waiting: set.courier, made: make(chan *box, 1),
	}
}

// call has the courier's box count as one that is in use, if there is room for it right now, and begins to make it
// if it is not there.
func (i *install) call(ctx context.Context, e *errand) {
	e.call.Do(func() {
		ticket, admitted := i.admission.try(boxClaim(i.place, e.spec))
		switch {
		case admitted && e.waiting != nil:
			ticket.follow(i.boxes, e.waiting.ID)
			ticket.release()
			e.made <- e.waiting
		case admitted:
			i.boxes.work.do("called a courier", func() { e.made <- i.makeCourier(ctx, e, ticket) })
		default:
			if e.waiting != nil {
				e.waiting.discard()
			}
			e.made <- nil
		}
	})
}

// makeCourier returns nil if the box cannot be made: another one is, later. Its place goes with it.
func (i *install) makeCourier(ctx context.Context, e *errand, ticket *ticket) (made *box) {
	defer ticket.release()
	_ = safely(i.ports.Log, "called a courier", func() (err error) {
		if made, err = i.boxes.make(ctx, i.place, e.spec, i.settings.InstallLimit); err == nil {
			ticket.follow(i.boxes, made.ID)
		}
		return err
	})
	return made
}

// arrive waits for a box that was called, and hands it out once.
func (e *errand) arrive() *box {
	e.call.Do(func() { e.made <- e.waiting })
	box := <-e.made
	e.made <- nil
	return box
}

// dismiss ends a courier that nobody sends any more, without waiting for its box.
func (i *install) dismiss(e *errand) {
	i.boxes.work.do("dismissed a courier", func() {
		if box := e.arrive(); box != nil {
			box.discard()
		}
	})
}
