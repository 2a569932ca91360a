package app

import (
	"context"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// removeTries and removePause bound one removal; what is still there then is left to the next sweep.
const (
	removeTries   = 5
	removePause   = 500 * time.Millisecond
	removeTimeout = 20 * time.Second
)

func (b *boxes) close(guest execution.Guest) {
	if err := guest.Close(); err != nil {
		b.ports.Log.Debug("closing the stream to a box", "error", err)
	}
}

// discard removes a box in the background, and tries again when the engine is away.
func (b *boxes) discard(on *place, id string) {
	b.work.do("removed a box", func() {
		var err error
		for range removeTries {
			ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
			err = b.destroy(ctx, on, id)
			cancel()
			if err == nil {
				return
			}
			time.Sleep(removePause)
		}
		b.leave(id)
		b.ports.Log.Warn("a box could not be removed; the next sweep tries again", "backend", on.name, "box", id, "error", err)
	})
}

func (b *boxes) destroy(ctx context.Context, on *place, id string) error {
	err := safely(b.ports.Log, "removed a box", func() error { return on.backend.Destroy(ctx, id) })
	if err == nil || errors.Is(err, core.ErrNotFound) {
		b.forget(id)
		return nil
	}
	return err
}

// drain waits for all work under way, which the service has told to end.
func (b *boxes) drain(ctx context.Context) error {
	select {
	case <-b.work.idle():
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	left := 0
	for _, k := range b.known {
		if k.mine {
			left++
		}
	}
	if left > 0 {
		return core.Errorf(core.ErrUnavailable, "some boxes (%d) could not be removed", left).
			WithHint("the next start removes them")
	}
	return nil
}
