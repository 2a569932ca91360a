package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/boxwright/boxwright/core"
)

// agentMark is written after the agent: a volume that has it has all of the agent.
const agentMark = ".complete"

// helperLife is after how long anybody may remove a helper that was left by a crash.
const helperLife = 10 * time.Minute

// agents are the host's agent executables.
type agents struct {
	paths map[string]string // by GOARCH

	mu   sync.Mutex
	read map[string]agent
}

// agent is one executable, and the volume that it belongs in.
type agent struct {
	path   string
	volume string
	size   int64
}

func newAgents(paths map[string]string) *agents {
	return &agents{paths: paths, read: map[string]agent{}}
}

// of returns the agent for an image's architecture. It reads the file once.
func (a *agents) of(image, arch string) (agent, error) {
	file, ok := a.paths[arch]
	if !ok {
		have := strings.Join(slices.Sorted(maps.Keys(a.paths)), ", ")
		return agent{}, core.Errorf(core.ErrUnsupported, "image %s is for linux/%s, and Boxwright has its agent for %s only", image, arch, have).
			WithHint("use an image for one of these, or install the agent for %s", arch)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.read[arch]; ok {
		return known, nil
	}
	content, err := os.Open(file) //nolint:gosec // the host names it
	if err != nil {
		return agent{}, core.Errorf(core.ErrUnavailable, "the agent for %s cannot be read: %w", arch, err).
			WithHint("install Boxwright again, with its agents")
	}
	defer func() { _ = content.Close() }() // it was only read
	sum := sha256.New()
	size, err := io.Copy(sum, content)
	if err != nil {
		return agent{}, core.Errorf(core.ErrUnavailable, "the agent for %s cannot be read: %w", arch, err)
	}
	name := fmt.Sprintf("boxwright-agent-%s-%s", hex.EncodeToString(sum.Sum(nil))[:16], arch)
	a.read[arch] = agent{path: file, volume: name, size: size}
	return a.read[arch], nil
}

// isFilled reports whether the container sees the whole agent.
func (e *engine) isFilled(ctx context.Context, id string, a agent) bool {
	if _, err := e.api.ContainerStatPath(ctx, id, path.Join(core.GuestBin, agentMark)); err != nil {
		return false
	}
	stat, err := e.api.ContainerStatPath(ctx, id, core.GuestAgent)
	return err == nil && stat.Size == a.size
}

// ensureAgent makes sure that the box that was created, but not started, finds the agent in
// its volume. It looks once in a process's life.
func (e *engine) ensureAgent(ctx context.Context, id string, from origin, spec core.BoxSpec, server string) error {
	a := from.agent
	if e.filled.has(a.volume) {
		return nil
	}
	e.filling.Lock()
	defer e.filling.Unlock()
	if e.filled.has(a.volume) {
		return nil
	}
	if !e.isFilled(ctx, id, a) {
		if err := e.fill(ctx, from, spec, server); err != nil {
			return err
		}
	}
	e.filled.add(a.volume)
	return nil
}

// fill writes the agent, and then the mark, into its volume.
func (e *engine) fill(ctx context.Context, from origin, spec core.BoxSpec, server string) error {
	a := from.agent
	labels := core.Labels{Instance: spec.Labels.Instance, Server: server, Purpose: core.PurposeAgent}
	_, err := e.api.VolumeCreate(ctx, volume.CreateOptions{Name: a.volume, Labels: labels.Map()})
	if err != nil {
		return e.fail(ctx, err, "the agent's volume could not be made")
	}
	err = e.withHelper(ctx, from, labels, []string{a.volume}, func(id string) error {
		archive, err := agentArchive(a)
		if err != nil {
			return core.Errorf(core.ErrUnavailable, "the agent cannot be read: %w", err)
		}
		return e.api.CopyToContainer(ctx, id, helperPath(0), archive, container.CopyToContainerOptions{})
	})
	if err == nil {
		e.dropAgents(ctx, labels, a.volume)
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
		if ours && have.Purpose == core.PurposeAgent && v.Name != keep && !e.filled.has(v.Name) {
			_ = e.api.VolumeRemove(ctx, v.Name, false)
		}
	}
}

func agentArchive(a agent) (io.Reader, error) {
	content, err := os.ReadFile(a.path)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, file := range []struct {
		name    string
		content []byte
	}{{path.Base(core.GuestAgent), content}, {agentMark, nil}} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o555, Size: int64(len(file.content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.content); err != nil {
			return nil, err
		}
	}
	return &buf, w.Close()
}

// own gives the roots of the volumes to the box's user: the engine makes them root's.
func (e *engine) own(ctx context.Context, from origin, spec core.BoxSpec, server string) error {
	var names []string
	for _, m := range spec.Mounts {
		if m.Writable && !e.owned.has(m.Volume) {
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
		e.owned.add(name)
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
	name := newName("helper")
	r := planHelper(name, from, labels, volumes)
	defer e.discard(ctx, name)
	made, err := e.api.ContainerCreate(ctx, r.Config, r.Host, r.Net, nil, r.Name)
	if err != nil {
		return e.fail(ctx, err, "a helper container could not be made")
	}
	return e.fail(ctx, f(made.ID), "a volume could not be written")
}
