//go:build remote && containers_image_openpgp

package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/copy"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// helperLife is after how long anybody may remove a helper that was left by a crash.
const helperLife = 10 * time.Minute

// hostsFile lies beside the agent: it is mounted as the /etc/hosts of boxes.
const (
	hostsFile    = "hosts"
	hostsContent = "127.0.0.1 localhost box\n::1 localhost\n"
)

// isFilled reports whether the container sees the whole agent in that folder.
func (e *engine) isFilled(ctx context.Context, id, folder string, a agentfile.File) (bool, error) {
	for file, size := range map[string]int64{
		agentfile.Mark: 0, hostsFile: int64(len(hostsContent)), path.Base(core.GuestAgent): a.Size,
	} {
		stat, err := containers.Stat(e.use(ctx), id, path.Join(folder, file))
		if errors.Is(err, copy.ErrENOENT) || err == nil && stat.Size != size {
			return false, nil
		}
		if err != nil {
			return false, e.fail(ctx, err, "the agent's volume %s could not be read", a.Name)
		}
	}
	return true, nil
}

// agentLabels are those of the agent's volume and of the helper that fills it.
func agentLabels(spec core.BoxSpec, server string) core.Labels {
	return core.Labels{Instance: spec.Labels.Instance, Server: server, Purpose: core.PurposeAgent}
}

// agentFolder makes the agent's volume if it is missing, with its labels, which a box that mounts it
// would not give it. It returns where the engine keeps it.
func (e *engine) agentFolder(ctx context.Context, from origin, labels core.Labels) (string, error) {
	name := from.agent.Name
	if known, ok := e.folders.Load(name); ok && e.filled.Has(name) {
		folder, _ := known.(string) // nothing else is stored
		return folder, nil
	}
	have, err := e.ensureVolume(ctx, name, labels)
	if err != nil {
		return "", e.fail(ctx, err, "the agent's volume could not be made")
	}
	e.folders.Store(name, have.Mountpoint)
	return have.Mountpoint, nil
}

// checkAgent makes sure that the box that was created, but not started, finds the agent in its
// volume. It looks once in a process's life.
func (e *engine) checkAgent(ctx context.Context, id string, from origin) error {
	if e.filled.Has(from.agent.Name) {
		return nil
	}
	whole, err := e.isFilled(ctx, id, core.GuestBin, from.agent)
	if err != nil {
		return err
	}
	if !whole {
		return agentLostError{core.Errorf(core.ErrInternal, "the agent's volume %s is not whole", from.agent.Name)}
	}
	e.filled.Add(from.agent.Name)
	return nil
}

// refill makes the agent's volume whole. Only one caller does at a time, and not again what another
// has just done: the agent may run already.
func (e *engine) refill(ctx context.Context, from origin, labels core.Labels) error {
	e.filling.Lock()
	defer e.filling.Unlock()
	e.filled.Remove(from.agent.Name)
	e.dropUnlabelled(ctx, from.agent.Name)
	if _, err := e.agentFolder(ctx, from, labels); err != nil {
		return err
	}
	helper := labels
	helper.Expires = time.Now().Add(helperLife)
	name := daemon.NewName("helper")
	defer e.discard(ctx, name)
	made, err := containers.CreateWithSpec(e.use(ctx), planHelper(name, from, helper, e.facts()), nil)
	if err != nil {
		return e.fail(ctx, err, "a helper container could not be made")
	}
	err = e.fillWhole(ctx, made.ID, from.agent)
	e.dropAgents(ctx, labels, from.agent.Name)
	return err
}

// Several servers may fill one volume at once, and disturb one another.
const (
	fillTries = 20
	fillPause = 100 * time.Millisecond
)

// fillWhole fills the volume that the helper sees until it is whole.
func (e *engine) fillWhole(ctx context.Context, helper string, a agentfile.File) error {
	var failed error
	for range fillTries {
		whole, err := e.isFilled(ctx, helper, helperPath, a)
		if whole || err != nil {
			return err
		}
		if failed = e.fill(ctx, helper, a); failed == nil {
			continue
		}
		if err := pause(ctx, fillPause); err != nil {
			return e.fail(ctx, err, "the agent's volume could not be written")
		}
	}
	return failed
}

// dropUnlabelled removes a volume that the engine has made by itself, for a box that mounts it.
func (e *engine) dropUnlabelled(ctx context.Context, name string) {
	if have, err := e.volume(ctx, name); err == nil && len(have.Labels) == 0 {
		_ = volumes.Remove(e.use(ctx), name, nil) // if it stays, it is filled
	}
}

// fill writes the agent, and then the mark, into its volume, which the helper has at helperPath.
func (e *engine) fill(ctx context.Context, helper string, a agentfile.File) error {
	agent, err := a.Archive()
	if err != nil {
		return err
	}
	for _, archive := range []io.Reader{hostsArchive(), agent} { // the mark comes last
		if err := e.copyTo(ctx, helper, helperPath, archive); err != nil {
			return e.fail(ctx, err, "the agent's volume could not be written")
		}
	}
	return nil
}

func hostsArchive() io.Reader {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	// A buffer takes everything, and the header is a constant.
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: hostsFile, Mode: 0o444, Size: int64(len(hostsContent))})
	_, _ = io.WriteString(w, hostsContent)
	_ = w.Close()
	return &buf
}

// copyTo unpacks an archive in a container. The bindings' own function drops what the engine
// says about a failure.
func (e *engine) copyTo(ctx context.Context, id, folder string, archive io.Reader) error {
	params := url.Values{"path": {folder}, "copyUIDGID": {"true"}}
	headers := http.Header{"Content-Type": {"application/x-tar"}}
	response, err := e.api.DoRequest(ctx, archive, http.MethodPut, "/containers/%s/archive", params, headers, id)
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
