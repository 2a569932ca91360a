//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// retryPause is between two tries of a clean-up.
const retryPause = 100 * time.Millisecond

// agentTries is how often one box has its agent's volume made whole, which others may remove meanwhile.
const agentTries = 5

// Create implements execution.Backend.
func (b *Backend) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Box{}, err
	}
	if err := spec.Validate(); err != nil {
		return core.Box{}, err
	}
	known := e.facts() // what is checked and what is planned go by the same
	warned, err := spec.CheckHeld(known.limits)
	if err != nil {
		return core.Box{}, err
	}
	box, err := patience.Settle(ctx, &b.work, func(engineCtx context.Context) (core.Box, error) {
		return b.create(ctx, engineCtx, e, spec, order{Runtime: b.settings.Runtime, Facts: known})
	}, func(engineCtx context.Context, box core.Box) {
		e.discard(engineCtx, box.ID)
	})
	box.Warnings = append(box.Warnings, warned...)
	return box, err
}

// create makes the box, or leaves nothing. It stops between two steps when the caller's ctx
// ends; the steps themselves run under engineCtx.
func (b *Backend) create(caller, engineCtx context.Context, e *engine, spec core.BoxSpec, o order) (_ core.Box, err error) {
	if o.From, err = b.originOf(engineCtx, e, spec); err != nil {
		return core.Box{}, err
	}
	if err := e.checkVolumes(engineCtx, spec.Mounts); err != nil {
		return core.Box{}, err
	}
	id, err := b.start(caller, engineCtx, e, spec, o)
	for try := 0; try < agentTries && errors.As(err, &agentLostError{}); try++ {
		_ = pause(engineCtx, fillPause) // another server may be at it
		if err = e.refill(engineCtx, o.From, agentLabels(spec, b.server)); err == nil {
			id, err = b.start(caller, engineCtx, e, spec, o)
		}
	}
	if err != nil {
		return core.Box{}, err
	}
	e.mine.Add(id)
	return core.Box{ID: id, Image: spec.Image, Labels: spec.Labels, State: core.BoxRunning, Created: time.Now().UTC()}, nil
}

// start makes the container and starts it, or leaves nothing.
func (b *Backend) start(caller, engineCtx context.Context, e *engine, spec core.BoxSpec, o order) (id string, err error) {
	if o.AgentFolder, err = e.agentFolder(engineCtx, o.From, agentLabels(spec, b.server)); err != nil {
		return "", err
	}
	o.Name = daemon.NewName(spec.Labels.Purpose)
	box := plan(spec, o)
	for _, step := range []func() error{
		func() (err error) { id, err = e.make(engineCtx, box, o.From); return err },
		func() error { return e.checkAgent(engineCtx, id, o.From) },
		func() error { return e.run(engineCtx, id, o.From) },
		func() error { return nil }, // the caller may have left meanwhile
	} {
		err := step()
		if err == nil && caller.Err() != nil {
			err = core.ContextError(caller)
		}
		if err != nil {
			e.discard(engineCtx, box.Name)
			return "", err
		}
	}
	return id, nil
}

// agentLostError means that a box did not find the whole agent in its volume.
type agentLostError struct{ err error }

// Error implements error.
func (l agentLostError) Error() string { return l.err.Error() }

// Unwrap lets the error keep its kind.
func (l agentLostError) Unwrap() error { return l.err }

// make makes the container. The engine looks at once for what it mounts out of the agent's volume.
func (e *engine) make(ctx context.Context, box *specgen.SpecGenerator, from origin) (string, error) {
	leave, err := e.turn.take(ctx)
	if err != nil {
		return "", err
	}
	made, err := containers.CreateWithSpec(e.use(ctx), box, nil)
	leave()
	if err != nil && strings.Contains(err.Error(), "requested OCI runtime") {
		return "", core.Errorf(core.ErrUnsupported, "the engine does not know the runtime %q of settings.runtime", box.OCIRuntime).
			WithHint("add the runtime to the engine's containers.conf, or set settings.runtime to one that it knows")
	}
	missing := err != nil && strings.Contains(err.Error(), "no such file or directory")
	err = e.fail(ctx, err, "a box of %s could not be made", from.name)
	if missing {
		err = agentLostError{err}
	}
	return made.ID, err
}

// run starts the container.
func (e *engine) run(ctx context.Context, id string, from origin) error {
	err := containers.Start(e.use(ctx), id, nil)
	switch {
	case err == nil:
		return nil
	case isForeign(err):
		return core.Errorf(core.ErrUnsupported, "image %s is for linux/%s, which this engine (%s) cannot run", from.name, from.arch, e.facts().platform()).
			WithHint("use an image for %s", e.facts().platform())
	}
	whole, unknown := e.isFilled(ctx, id, core.GuestBin, from.agent)
	err = e.fail(ctx, err, "a box of %s could not be started", from.name)
	if !whole && unknown == nil || agentfile.IsInFlux(err) {
		err = agentLostError{err}
	}
	return err
}

// checkVolumes finds a missing volume before the engine silently makes an empty one.
func (e *engine) checkVolumes(ctx context.Context, mounts []core.Mount) error {
	ctx, cancel := e.quick(ctx)
	defer cancel()
	for _, m := range mounts {
		have, err := e.volume(ctx, m.Volume)
		if err != nil && !isNotFound(err) {
			return e.fail(ctx, err, "volume %s could not be inspected", m.Volume)
		}
		if _, ours := core.ParseLabels(have.Labels); err != nil || !ours {
			return core.Errorf(core.ErrNotFound, "there is no volume %s", m.Volume)
		}
	}
	return nil
}

// discard removes a container by its id or name, however the caller's ctx is doing. What the
// engine does not manage to remove now is labelled, and found by a later sweep.
func (e *engine) discard(ctx context.Context, container string) {
	ctx, cancel := patience.Slow(context.WithoutCancel(ctx))
	defer cancel()
	const tries = 3
	for try := range tries {
		if try > 0 {
			time.Sleep(retryPause)
		}
		if err := e.remove(ctx, container); err == nil {
			return
		}
	}
}
