//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/domain/entities/types"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// volumeState is what is read of a volume.
type volumeState struct {
	Name       string            `json:"Name"`
	Mountpoint string            `json:"Mountpoint"` // on the engine's machine
	CreatedAt  time.Time         `json:"CreatedAt"`
	Labels     map[string]string `json:"Labels"`
}

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
	have, err := e.ensureVolume(ctx, v.Name, v.Labels)
	if err != nil {
		return core.Volume{}, e.fail(ctx, err, "volume %s could not be made", v.Name)
	}
	labels, ours := core.ParseLabels(have.Labels)
	if !ours {
		return core.Volume{}, core.Errorf(core.ErrNotFound, "volume %s exists and is not Boxwright's", v.Name)
	}
	return core.Volume{Name: have.Name, Labels: labels, Created: have.CreatedAt.UTC()}, nil
}

// Two who make the same volume at once may each find it neither makeable nor there for a moment.
const (
	volumeTries = 20
	volumePause = 50 * time.Millisecond
)

// ensureVolume makes the volume if it is missing. Older services refuse to make one that exists.
func (e *engine) ensureVolume(ctx context.Context, name string, labels core.Labels) (volumeState, error) {
	for try := 1; ; try++ {
		have, err := e.volume(ctx, name)
		if !isNotFound(err) || try > volumeTries {
			return have, err
		}
		_, err = volumes.Create(e.use(ctx), planVolume(name, labels), nil)
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), "already exists") {
			return have, err
		}
		if err := pause(ctx, volumePause); err != nil {
			return have, err
		}
	}
}

// pause returns an error if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// planVolume makes the volume's root the box user's. Podman otherwise gives a volume to whoever
// the image says when it is first mounted.
func planVolume(name string, labels core.Labels) types.VolumeCreateOptions {
	return types.VolumeCreateOptions{
		Name:    name,
		Driver:  "local",
		Label:   labels.Map(),
		Options: map[string]string{"o": fmt.Sprintf("uid=%d,gid=%d", core.GuestUID, core.GuestGID)},
	}
}

func (e *engine) volume(ctx context.Context, name string) (volumeState, error) {
	var have volumeState
	err := e.get(ctx, &have, "/volumes/%s/json", nil, name)
	return have, err
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
	have, err := e.volume(ctx, name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return e.fail(ctx, err, "volume %s could not be inspected", name)
	}
	if _, ours := core.ParseLabels(have.Labels); !ours {
		return core.Errorf(core.ErrNotFound, "there is no volume %s", name)
	}
	e.filled.Remove(name)
	err = volumes.Remove(e.use(ctx), name, nil)
	switch {
	case err == nil || isNotFound(err):
		return nil
	case isConflict(err):
		return core.Errorf(core.ErrUnavailable, "volume %s is in use by a box", name)
	}
	return e.fail(ctx, err, "volume %s could not be removed", name)
}
