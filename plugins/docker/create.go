package docker

import (
	"context"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

const (
	// retryPause is between two tries of one thing.
	retryPause = 100 * time.Millisecond
	// startTries is how often a box is started whose agent another server is writing at that moment.
	startTries = 5
)

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
	if err := checkRuntime(known.info, b.settings.Runtime); err != nil {
		b.finder.Forget(e) // what the engine knows is asked anew
		return core.Box{}, err
	}
	warned, err := spec.CheckHeld(known.limits)
	if err != nil {
		return core.Box{}, err
	}
	box, err := patience.Settle(ctx, &b.work, func(engineCtx context.Context) (core.Box, error) {
		return b.create(ctx, engineCtx, e, spec, known)
	}, func(engineCtx context.Context, box core.Box) {
		b.first.Drop(box.ID)
		e.discard(engineCtx, box.ID)
	})
	box.Warnings = append(box.Warnings, warned...)
	return box, err
}

// create makes the box, or leaves nothing. It stops between two steps when the caller's ctx
// ends; the steps themselves run under engineCtx.
func (b *Backend) create(caller, engineCtx context.Context, e *engine, spec core.BoxSpec, known facts) (core.Box, error) {
	from, err := b.originOf(engineCtx, e, spec)
	if err != nil {
		return core.Box{}, err
	}
	if err := e.checkVolumes(engineCtx, spec.Mounts); err != nil {
		return core.Box{}, err
	}
	r := plan(spec, order{
		Name:    daemon.NewName(spec.Labels.Purpose),
		Image:   from.id,
		Agent:   from.agent.Name,
		Volumes: from.volumes,
		Server:  b.server,
		Runtime: b.settings.Runtime,
		Sandbox: known.sandbox,
		Limits:  known.limits,
		MaxCPUs: float64(known.info.NCPU),
	})
	id, err := b.start(caller, engineCtx, e, spec, r, from)
	if from.arch != known.arch {
		err = e.checkForeign(engineCtx, id, from, err)
	}
	if err != nil {
		b.first.Drop(id)
		e.discard(engineCtx, r.Name)
		return core.Box{}, err
	}
	e.mine.Add(id)
	return core.Box{ID: id, Image: spec.Image, Labels: spec.Labels, State: core.BoxRunning, Created: time.Now().UTC()}, nil
}

// start makes the container, makes its volumes ready, and starts it.
func (b *Backend) start(caller, engineCtx context.Context, e *engine, spec core.BoxSpec, r request, from origin) (string, error) {
	made, err := e.api.ContainerCreate(engineCtx, r.Config, r.Host, r.Net, nil, r.Name)
	if mayPass(err) && caller.Err() == nil {
		made, err = e.api.ContainerCreate(engineCtx, r.Config, r.Host, r.Net, nil, r.Name)
	}
	if err != nil {
		return "", e.fail(engineCtx, err, "a box of %s could not be made", spec.Image)
	}
	id := made.ID
	for _, step := range []func() error{
		func() error { return e.ensureAgent(engineCtx, id, from, spec, b.server) },
		func() error { return e.own(engineCtx, from, spec, b.server) },
		func() error { return b.run(engineCtx, e, id, spec, from) },
	} {
		if caller.Err() != nil {
			return id, core.ContextError(caller)
		}
		if err := step(); err != nil {
			return id, err
		}
	}
	if caller.Err() != nil {
		return id, core.ContextError(caller)
	}
	return id, nil
}

// run starts the container. Should somebody have removed the agent's volume since it was last
// seen, the engine has made an empty one: it is filled again, once.
func (b *Backend) run(ctx context.Context, e *engine, id string, spec core.BoxSpec, from origin) error {
	err := b.launch(ctx, e, id)
	if err == nil || ctx.Err() != nil || e.isFilled(ctx, id, from.agent) {
		return e.fail(ctx, err, "a box of %s could not be started", spec.Image)
	}
	e.filled.Remove(from.agent.Name)
	if err := e.ensureAgent(ctx, id, from, spec, b.server); err != nil {
		return err
	}
	return e.fail(ctx, b.launch(ctx, e, id), "a box of %s could not be started", spec.Image)
}

// launch starts the container, once more while the engine is not done with what was before: with the agent's
// file, or with a start that failed, whose remains it removes in the background.
func (b *Backend) launch(ctx context.Context, e *engine, id string) error {
	err := b.startAttached(ctx, e, id)
	for try := 0; try < startTries && ctx.Err() == nil && (agentfile.IsInFlux(err) || isBeingRemoved(err) || try == 0 && mayPass(err)); try++ {
		time.Sleep(retryPause)
		err = b.startAttached(ctx, e, id)
	}
	return err
}

// startAttached starts the container with the agent's first stream open. A start that fails ends the stream.
func (b *Backend) startAttached(ctx context.Context, e *engine, id string) error {
	if err := b.openFirst(ctx, e, id); err != nil {
		return err
	}
	err := e.api.ContainerStart(ctx, id, container.StartOptions{})
	if err != nil {
		b.first.Drop(id)
	}
	return err
}

// mayPass reports whether an error is the engine's own: a busy one fails at times for no reason of the box's, as when
// another process of it ends while it looks at its mounts.
func mayPass(err error) bool { return cerrdefs.IsInternal(err) }

func isBeingRemoved(err error) bool {
	return err != nil && strings.Contains(err.Error(), "id already in use")
}

// foreignTime is how long an agent for another architecture is watched. One that the machine
// cannot run ends in a few milliseconds, and older engines do not say why.
const foreignTime = time.Second

// checkForeign finds out whether the engine's machine runs programs of the image's
// architecture: some do, by emulation. failed is why the box did not start, if it did not.
func (e *engine) checkForeign(ctx context.Context, id string, from origin, failed error) error {
	cannot := core.Errorf(core.ErrUnsupported, "image %s is for linux/%s, which this engine (%s/%s) cannot run", from.name, from.arch, e.facts().info.OSType, e.facts().arch).
		WithHint("use an image for linux/%s", e.facts().arch)
	if failed != nil {
		if strings.Contains(failed.Error(), "exec format error") {
			return cannot
		}
		return failed
	}
	for begin := time.Now(); time.Since(begin) < foreignTime; time.Sleep(retryPause) {
		have, err := e.api.ContainerInspect(ctx, id)
		if err != nil {
			return e.fail(ctx, err, "a box of %s could not be inspected", from.name)
		}
		if have.State != nil && !have.State.Running {
			return cannot
		}
	}
	return nil
}

// checkVolumes finds a missing volume before the engine silently makes an empty one.
func (e *engine) checkVolumes(ctx context.Context, mounts []core.Mount) error {
	ctx, cancel := e.quick(ctx)
	defer cancel()
	for _, m := range mounts {
		v, err := e.api.VolumeInspect(ctx, m.Volume)
		if err != nil && !cerrdefs.IsNotFound(err) {
			return e.fail(ctx, err, "volume %s could not be inspected", m.Volume)
		}
		if _, ours := core.ParseLabels(v.Labels); err != nil || !ours {
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
