//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"errors"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// retryPause is between two tries of a clean-up.
const retryPause = 100 * time.Millisecond

// errAgentLost means that the agent's volume has vanished since it was last seen.
var errAgentLost = errors.New("the agent's volume has vanished")

// Create implements execution.Backend.
func (b *Backend) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Box{}, err
	}
	if err := spec.Validate(); err != nil {
		return core.Box{}, err
	}
	warned, err := spec.CheckHeld(e.facts.limits)
	if err != nil {
		return core.Box{}, err
	}
	box, err := daemon.Settle(ctx, &b.work, func(engineCtx context.Context) (core.Box, error) {
		return b.create(ctx, engineCtx, e, spec)
	}, func(engineCtx context.Context, box core.Box) {
		e.discard(engineCtx, box.ID)
	})
	box.Warnings = append(box.Warnings, warned...)
	return box, err
}

// create makes the box, or leaves nothing. It stops between two steps when the caller's ctx
// ends; the steps themselves run under engineCtx.
func (b *Backend) create(caller, engineCtx context.Context, e *engine, spec core.BoxSpec) (core.Box, error) {
	from, err := b.originOf(engineCtx, e, spec)
	if err != nil {
		return core.Box{}, err
	}
	if err := e.checkVolumes(engineCtx, spec.Mounts); err != nil {
		return core.Box{}, err
	}
	id, err := b.start(caller, engineCtx, e, spec, from)
	if errors.Is(err, errAgentLost) {
		id, err = b.start(caller, engineCtx, e, spec, from)
	}
	if err != nil {
		return core.Box{}, err
	}
	e.mine.Add(id)
	return core.Box{ID: id, Image: spec.Image, Labels: spec.Labels, State: core.BoxRunning, Created: time.Now().UTC()}, nil
}

// start makes the container and what it needs, and starts it, or leaves nothing.
func (b *Backend) start(caller, engineCtx context.Context, e *engine, spec core.BoxSpec, from origin) (string, error) {
	agent := agentLabels(spec, b.server)
	box := plan(spec, order{Name: daemon.NewName(spec.Labels.Purpose), From: from, Runtime: b.settings.Runtime, Facts: e.facts})
	var id string
	for _, step := range []func() error{
		func() error { return e.ensureAgentVolume(engineCtx, from, agent) },
		func() (err error) { id, err = e.make(engineCtx, box, spec.Image); return err },
		func() error { return e.ensureAgent(engineCtx, id, from, agent) },
		func() error { return e.run(engineCtx, id, from) },
		func() error { return nil }, // the caller may have left meanwhile
	} {
		err := step()
		if err == nil && caller.Err() != nil {
			err = daemon.Ended(caller)
		}
		if err != nil {
			e.discard(engineCtx, box.Name)
			return "", err
		}
	}
	return id, nil
}

// ensureAgentVolume labels the volume before a box that mounts it makes it without labels.
func (e *engine) ensureAgentVolume(ctx context.Context, from origin, labels core.Labels) error {
	if e.filled.Has(from.agent.Name) {
		return nil
	}
	_, err := e.ensureVolume(ctx, from.agent.Name, labels)
	return e.fail(ctx, err, "the agent's volume could not be made")
}

func (e *engine) make(ctx context.Context, box *specgen.SpecGenerator, image string) (string, error) {
	made, err := containers.CreateWithSpec(e.use(ctx), box, nil)
	return made.ID, e.fail(ctx, err, "a box of %s could not be made", image)
}

// run starts the container. Should somebody have removed the agent's volume since it was last
// seen, the engine has made an empty one without labels: then that is removed with the box.
func (e *engine) run(ctx context.Context, id string, from origin) error {
	err := containers.Start(e.use(ctx), id, nil)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && !e.isFilled(ctx, id, from.agent):
		e.filled.Remove(from.agent.Name)
		e.discard(ctx, id)
		e.dropUnlabelled(ctx, from.agent.Name)
		return errAgentLost
	case isForeign(err):
		return core.Errorf(core.ErrUnsupported, "image %s is for linux/%s, which this engine (%s) cannot run", from.name, from.arch, e.facts.platform()).
			WithHint("use an image for %s", e.facts.platform())
	}
	return e.fail(ctx, err, "a box of %s could not be started", from.name)
}

// dropUnlabelled removes a volume that the engine has made by itself.
func (e *engine) dropUnlabelled(ctx context.Context, name string) {
	if have, err := e.volume(ctx, name); err == nil && len(have.Labels) == 0 {
		_ = volumes.Remove(e.use(ctx), name, nil) // if it stays, the next box finds it filled or fills it
	}
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
	ctx, cancel := daemon.Slow(context.WithoutCancel(ctx))
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
