//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// removalPoll is how often a removal that somebody else began is looked at.
const removalPoll = 50 * time.Millisecond

// containerEntry is what is read of a container in a list.
type containerEntry struct {
	ID      string            `json:"Id"`
	Image   string            `json:"Image"`
	Labels  map[string]string `json:"Labels"`
	State   string            `json:"State"`
	Created time.Time         `json:"Created"`
}

// containerState is what is read of one container.
type containerState struct {
	State struct {
		Running   bool `json:"Running"`
		OOMKilled bool `json:"OOMKilled"`
	} `json:"State"`
	Config struct {
		Labels map[string]string `json:"Labels"`
	} `json:"Config"`
}

// List implements execution.Backend.
func (b *Backend) List(ctx context.Context, instance string) (core.Inventory, error) {
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Inventory{}, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	params := labelFilter(instance)
	params.Set("all", "true")
	var found []containerEntry
	if err := e.list(ctx, &found, "/containers/json", params); err != nil {
		return core.Inventory{}, e.fail(ctx, err, "the boxes could not be listed")
	}
	volumes, err := e.volumes(ctx, instance)
	if err != nil {
		return core.Inventory{}, e.fail(ctx, err, "the volumes could not be listed")
	}
	var have core.Inventory
	for _, c := range found {
		if labels, ok := core.ParseLabels(c.Labels); ok && labels.Instance == instance {
			have.Boxes = append(have.Boxes, e.box(ctx, c, labels))
		}
	}
	for _, v := range volumes {
		if labels, ok := core.ParseLabels(v.Labels); ok && labels.Instance == instance {
			have.Volumes = append(have.Volumes, core.Volume{Name: v.Name, Labels: labels, Created: v.CreatedAt.UTC()})
		}
	}
	return have, nil
}

func (e *engine) volumes(ctx context.Context, instance string) (list []volumeState, err error) {
	err = e.list(ctx, &list, "/volumes/json", labelFilter(instance))
	return list, err
}

// list reads a list, again if need be: older services fail when something that is on it goes away
// while they make it.
func (e *engine) list(ctx context.Context, into any, endpoint string, params url.Values) error {
	const tries = 10
	err := e.get(ctx, into, endpoint, params)
	for try := 1; try < tries && err != nil && strings.Contains(err.Error(), "no such"); try++ {
		err = e.get(ctx, into, endpoint, params)
	}
	return err
}

// labelFilter finds what belongs to an installation.
func labelFilter(instance string) url.Values {
	filters, _ := json.Marshal(map[string][]string{ // a map of strings can be written
		"label": {core.LabelMark + "=1", core.LabelInstance + "=" + instance},
	})
	return url.Values{"filters": {string(filters)}}
}

func (e *engine) box(ctx context.Context, c containerEntry, labels core.Labels) core.Box {
	box := core.Box{ID: c.ID, Image: c.Image, Labels: labels, State: core.BoxStopped, Created: c.Created.UTC()}
	if known := c.Labels[daemon.LabelImage]; known != "" {
		box.Image = known
	}
	if c.State == "running" {
		box.State = core.BoxRunning
		return box
	}
	if full, err := e.container(ctx, c.ID); err == nil {
		box.OOMKilled = full.State.OOMKilled
	}
	return box
}

func (e *engine) container(ctx context.Context, id string) (containerState, error) {
	var have containerState
	err := e.get(ctx, &have, "/containers/%s/json", nil, id)
	return have, err
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
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return e.fail(lookCtx, err, "the box could not be removed")
	}
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
	have, err := e.container(ctx, id)
	if err != nil {
		return err
	}
	if have.Config.Labels[core.LabelMark] != "1" {
		return core.Errorf(core.ErrNotFound, "there is no such box")
	}
	e.mine.Add(id)
	return nil
}

// remove kills and removes a container with its private volumes, and returns when it is gone.
func (e *engine) remove(ctx context.Context, id string) error {
	err := e.removeOnce(ctx, id)
	for isConflict(err) { // somebody else is removing it
		if err := pause(ctx, removalPoll); err != nil {
			return err
		}
		err = e.removeOnce(ctx, id)
	}
	return err
}

// removeOnce kills at once: Podman would first ask the agent to end, which it does not.
func (e *engine) removeOnce(ctx context.Context, id string) error {
	options := new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0)
	reports, err := containers.Remove(e.use(ctx), id, options)
	for _, r := range reports {
		if err == nil {
			err = r.Err
		}
	}
	if isNotFound(err) {
		return nil
	}
	return err
}
