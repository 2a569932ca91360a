//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// helperLife is after how long anybody may remove a helper that was left by a crash.
const helperLife = 10 * time.Minute

// isFilled reports whether the container sees the whole agent.
func (e *engine) isFilled(ctx context.Context, id string, a agentfile.File) bool {
	if _, err := containers.Stat(e.use(ctx), id, path.Join(core.GuestBin, agentfile.Mark)); err != nil {
		return false
	}
	stat, err := containers.Stat(e.use(ctx), id, core.GuestAgent)
	return err == nil && stat.Size == a.Size
}

// agentLabels are those of the agent's volume and of the helper that fills it.
func agentLabels(spec core.BoxSpec, server string) core.Labels {
	return core.Labels{Instance: spec.Labels.Instance, Server: server, Purpose: core.PurposeAgent}
}

// ensureAgent makes sure that the box that was created, but not started, finds the agent in
// its volume. It looks once in a process's life.
func (e *engine) ensureAgent(ctx context.Context, id string, from origin, labels core.Labels) error {
	a := from.agent
	if e.filled.Has(a.Name) {
		return nil
	}
	e.filling.Lock()
	defer e.filling.Unlock()
	if e.filled.Has(a.Name) {
		return nil
	}
	if !e.isFilled(ctx, id, a) {
		if err := e.fill(ctx, from, labels); err != nil {
			return err
		}
	}
	e.filled.Add(a.Name)
	return nil
}

// fill writes the agent, and then the mark, into its volume, through a container that is never
// started.
func (e *engine) fill(ctx context.Context, from origin, labels core.Labels) error {
	archive, err := from.agent.Archive()
	if err != nil {
		return err
	}
	helper := labels
	helper.Expires = time.Now().Add(helperLife)
	name := daemon.NewName("helper")
	defer e.discard(ctx, name)
	made, err := containers.CreateWithSpec(e.use(ctx), planHelper(name, from, helper, from.agent.Name, e.facts), nil)
	if err != nil {
		return e.fail(ctx, err, "a helper container could not be made")
	}
	if err := e.copyTo(ctx, made.ID, helperPath, archive); err != nil {
		return e.fail(ctx, err, "the agent's volume could not be written")
	}
	e.dropAgents(ctx, labels, from.agent.Name)
	return nil
}

// copyTo unpacks an archive in a container. The bindings' own function drops what the engine
// says about a failure.
func (e *engine) copyTo(ctx context.Context, id, folder string, archive io.Reader) error {
	params := url.Values{"path": {folder}, "copyUIDGID": {"true"}}
	response, err := e.api.DoRequest(ctx, archive, http.MethodPut, "/containers/%s/archive", params, nil, id)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	return response.Process(nil)
}

// dropAgents removes the volumes that hold this installation's agents of older builds. One that a
// box still uses stays: the engine refuses.
func (e *engine) dropAgents(ctx context.Context, labels core.Labels, keep string) {
	list, err := e.volumes(ctx, labels.Instance)
	if err != nil {
		return // the next new build tries again
	}
	for _, v := range list {
		have, ours := core.ParseLabels(v.Labels)
		if ours && have.Purpose == core.PurposeAgent && v.Name != keep && !e.filled.Has(v.Name) {
			_ = volumes.Remove(e.use(ctx), v.Name, nil)
		}
	}
}
