package app

import (
	"context"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// errand is a courier whose box is made while the installer is still at work: it does nothing before it is sent.
type errand struct {
	spec core.BoxSpec
	made chan *box // gets the box, or nil if there is none
	call sync.Once
}

// prepare says what the courier will need.
func (i *install) prepare(volume core.Volume) *errand {
	return &errand{spec: courierSpec(i.settings, i.image, i.zone.Volume, volume.Name), made: make(chan *box, 1)}
}

// call begins to make the courier's box, if there is room for it right now. Its place goes with it.
func (i *install) call(ctx context.Context, e *errand) {
	e.call.Do(func() {
		ticket, admitted := i.admission.try(boxClaim(i.place, e.spec))
		if !admitted {
			e.made <- nil
			return
		}
		i.boxes.work.do("called a courier", func() {
			defer ticket.release()
			var box *box
			_ = safely(i.ports.Log, "called a courier", func() (err error) { // without its box another is made
				if box, err = i.boxes.make(ctx, i.place, e.spec, i.settings.InstallLimit); err == nil {
					ticket.follow(i.boxes, box.ID)
				}
				return err
			})
			e.made <- box
		})
	})
}

// arrive waits for a box that was called, and hands it out once.
func (e *errand) arrive() *box {
	e.call.Do(func() { e.made <- nil })
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
