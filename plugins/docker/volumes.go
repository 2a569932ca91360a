package docker

import (
	"context"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// EnsureVolume implements execution.Backend.
func (b *Backend) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	if err := core.CheckVolumeName(v.Name); err != nil {
		return core.Volume{}, err
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Volume{}, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	e.owned.Remove(v.Name) // it may be a new one of the same name
	have, err := e.api.VolumeCreate(ctx, volume.CreateOptions{Name: v.Name, Labels: v.Labels.Map()})
	if err != nil {
		return core.Volume{}, e.fail(ctx, err, "volume %s could not be made", v.Name)
	}
	labels, ours := core.ParseLabels(have.Labels)
	if !ours { // a daemon that was started anew forgets the labels of what it had until it is asked for them
		if have, err = e.api.VolumeInspect(ctx, v.Name); err != nil {
			return core.Volume{}, e.fail(ctx, err, "volume %s could not be inspected", v.Name)
		}
		labels, ours = core.ParseLabels(have.Labels)
	}
	if !ours {
		return core.Volume{}, core.Errorf(core.ErrNotFound, "volume %s exists and is not Boxwright's", v.Name)
	}
	return core.Volume{Name: have.Name, Labels: labels, Created: parseTime(have.CreatedAt)}, nil
}

// RemoveVolume implements execution.Backend.
func (b *Backend) RemoveVolume(ctx context.Context, name string) error {
	if err := core.CheckVolumeName(name); err != nil {
		return err
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := patience.Slow(ctx)
	defer cancel()
	have, err := e.api.VolumeInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return e.fail(ctx, err, "volume %s could not be inspected", name)
	}
	if _, ours := core.ParseLabels(have.Labels); !ours {
		return core.Errorf(core.ErrNotFound, "there is no volume %s", name)
	}
	e.owned.Remove(name)
	e.filled.Remove(name)
	err = e.api.VolumeRemove(ctx, name, false)
	switch {
	case err == nil || cerrdefs.IsNotFound(err):
		return nil
	case cerrdefs.IsConflict(err):
		return core.Errorf(core.ErrUnavailable, "volume %s is in use by a box", name)
	}
	return e.fail(ctx, err, "volume %s could not be removed", name)
}
