package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"path"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// helperLife is after how long anybody may remove a helper that was left by a crash.
const helperLife = 10 * time.Minute

// isFilled reports whether the container sees the whole agent.
func (e *engine) isFilled(ctx context.Context, id string, a agentfile.File) bool {
	if _, err := e.api.ContainerStatPath(ctx, id, path.Join(core.GuestBin, agentfile.Mark)); err != nil {
		return false
	}
	stat, err := e.api.ContainerStatPath(ctx, id, core.GuestAgent)
	return err == nil && stat.Size == a.Size
}

// ensureAgent makes sure that the box that was created, but not started, finds the agent in
// its volume. It looks once in a process's life.
func (e *engine) ensureAgent(ctx context.Context, id string, from origin, spec core.BoxSpec, server string) error {
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
		if err := e.fill(ctx, from, spec, server); err != nil {
			return err
		}
	}
	e.filled.Add(a.Name)
	return nil
}

// fill writes the agent, and then the mark, into its volume.
func (e *engine) fill(ctx context.Context, from origin, spec core.BoxSpec, server string) error {
	a := from.agent
	labels := core.Labels{Instance: spec.Labels.Instance, Server: server, Purpose: core.PurposeAgent}
	_, err := e.api.VolumeCreate(ctx, volume.CreateOptions{Name: a.Name, Labels: labels.Map()})
	if err != nil {
		return e.fail(ctx, err, "the agent's volume could not be made")
	}
	err = e.withHelper(ctx, from, labels, []string{a.Name}, func(id string) error {
		archive, err := a.Archive()
		if err != nil {
			return err
		}
		return e.api.CopyToContainer(ctx, id, helperPath(0), archive, container.CopyToContainerOptions{})
	})
	if err == nil {
		e.dropAgents(ctx, labels, a.Name)
	}
	return err
}

// dropAgents removes the volumes that hold this installation's agents of older builds. One that a
// box still uses stays: the engine refuses.
func (e *engine) dropAgents(ctx context.Context, labels core.Labels, keep string) {
	list, err := e.api.VolumeList(ctx, volume.ListOptions{Filters: labelFilter(labels.Instance)})
	if err != nil {
		return // the next new build tries again
	}
	for _, v := range list.Volumes {
		have, ours := core.ParseLabels(v.Labels)
		if ours && have.Purpose == core.PurposeAgent && v.Name != keep && !e.filled.Has(v.Name) {
			_ = e.api.VolumeRemove(ctx, v.Name, false)
		}
	}
}

// own gives the roots of the volumes to the box's user: the engine makes them root's.
func (e *engine) own(ctx context.Context, from origin, spec core.BoxSpec, server string) error {
	var names []string
	for _, m := range spec.Mounts {
		if m.Writable && !e.owned.Has(m.Volume) {
			names = append(names, m.Volume)
		}
	}
	if len(names) == 0 {
		return nil
	}
	labels := core.Labels{Instance: spec.Labels.Instance, Server: server, Purpose: spec.Labels.Purpose}
	err := e.withHelper(ctx, from, labels, names, func(id string) error {
		return e.api.CopyToContainer(ctx, id, helperRoot, ownersArchive(len(names)), container.CopyToContainerOptions{})
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		e.owned.Add(name)
	}
	return nil
}

// ownersArchive holds n folders of the box user's. The engine skips an archive's own root, so
// the roots of volumes have to be folders in it.
func ownersArchive(n int) io.Reader {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range n {
		// A buffer takes everything, and the header is a constant.
		_ = w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: path.Base(helperPath(i)) + "/", Mode: 0o755, Uid: core.GuestUID, Gid: core.GuestGID,
		})
	}
	_ = w.Close()
	return &buf
}

// withHelper calls f with a container that sees volumes writable below helperRoot, and
// removes it.
func (e *engine) withHelper(ctx context.Context, from origin, labels core.Labels, volumes []string, f func(id string) error) error {
	labels.Expires = time.Now().Add(helperLife)
	name := daemon.NewName("helper")
	r := planHelper(name, from, labels, volumes)
	defer e.discard(ctx, name)
	made, err := e.api.ContainerCreate(ctx, r.Config, r.Host, r.Net, nil, r.Name)
	if err != nil {
		return e.fail(ctx, err, "a helper container could not be made")
	}
	return e.fail(ctx, f(made.ID), "a volume could not be written")
}
