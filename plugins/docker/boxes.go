package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// removalPoll is how often a removal that somebody else began is looked at.
const removalPoll = 50 * time.Millisecond

// List implements execution.Backend.
func (b *Backend) List(ctx context.Context, instance string) (core.Inventory, error) {
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Inventory{}, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	ours := labelFilter(instance)
	containers, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return core.Inventory{}, e.fail(ctx, err, "the boxes could not be listed")
	}
	volumes, err := e.api.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return core.Inventory{}, e.fail(ctx, err, "the volumes could not be listed")
	}
	var have core.Inventory
	for _, c := range containers {
		if labels, ok := core.ParseLabels(c.Labels); ok && labels.Instance == instance {
			have.Boxes = append(have.Boxes, e.box(ctx, c, labels))
		}
	}
	for _, v := range volumes.Volumes {
		if labels, ok := core.ParseLabels(v.Labels); ok && labels.Instance == instance {
			have.Volumes = append(have.Volumes, core.Volume{Name: v.Name, Labels: labels, Created: parseTime(v.CreatedAt)})
		}
	}
	return have, nil
}

func (e *engine) box(ctx context.Context, c container.Summary, labels core.Labels) core.Box {
	name := c.Image
	if known := c.Labels[daemon.LabelImage]; known != "" {
		name = known
	}
	box := core.Box{
		ID:      c.ID,
		Image:   name,
		Labels:  labels,
		State:   core.BoxStopped,
		Created: time.Unix(c.Created, 0).UTC(),
	}
	if c.State == container.StateRunning {
		box.State = core.BoxRunning
		return box
	}
	if full, err := e.api.ContainerInspect(ctx, c.ID); err == nil && full.State != nil {
		box.OOMKilled = full.State.OOMKilled
	}
	return box
}

func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// Destroy implements execution.Backend.
func (b *Backend) Destroy(ctx context.Context, box string) error {
	if !daemon.IsID(box) {
		return nil // no container has such an id
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return err
	}
	lookCtx, cancel := e.quick(ctx)
	defer cancel()
	err = e.checkMine(lookCtx, box)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return e.fail(lookCtx, err, "the box could not be removed")
	}
	b.first.Drop(box)
	removeCtx, cancel := patience.Slow(ctx)
	defer cancel()
	if err := e.remove(removeCtx, box); err != nil {
		return e.fail(removeCtx, err, "the box could not be removed")
	}
	e.mine.Remove(box)
	return nil
}

// checkMine returns the engine's own error if there is no such container, and
// core.ErrNotFound if it is not one of Boxwright's. An id is never used twice, so one look is
// enough.
func (e *engine) checkMine(ctx context.Context, id string) error {
	if e.mine.Has(id) {
		return nil
	}
	have, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return err
	}
	if have.Config == nil || have.Config.Labels[core.LabelMark] != "1" {
		return core.Errorf(core.ErrNotFound, "there is no such box")
	}
	e.mine.Add(id)
	return nil
}

// remove kills and removes a container with its private volumes, and returns when it is gone.
func (e *engine) remove(ctx context.Context, id string) error {
	err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	for cerrdefs.IsConflict(err) { // somebody else is removing it
		timer := time.NewTimer(removalPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		err = e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// labelFilter finds what belongs to an installation.
func labelFilter(instance string) filters.Args {
	return filters.NewArgs(
		filters.Arg("label", core.LabelMark+"=1"),
		filters.Arg("label", core.LabelInstance+"="+instance),
	)
}
