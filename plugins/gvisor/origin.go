package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
)

// origin is what a box is made from.
type origin struct {
	root  string   // the root file system's folder
	binds []string // see order
	masks []string
	env   []string
	agent string // the folder that holds the agent
}

// originOf finds the spec's image, which must be there, and the agent.
func (b *Backend) originOf(ctx context.Context, spec core.BoxSpec) (origin, error) {
	digest := spec.Digest
	if digest == "" {
		image, err := b.EnsureImage(ctx, spec.Image, core.PullNever, nil)
		if err != nil {
			return origin{}, err
		}
		digest = image.Digest
	}
	from, err := b.readImage(spec.Image, digest)
	if err != nil {
		return origin{}, err
	}
	file, err := b.agents.Of(spec.Image, runtime.GOARCH)
	if err == nil {
		from.agent, err = b.keepAgent(file)
	}
	return from, err
}

// readImage returns the unpacked image of that content.
func (b *Backend) readImage(name, digest string) (origin, error) {
	dir := b.folders.image(strings.TrimPrefix(digest, "sha256:"))
	var have imageRecord
	if err := readJSON(filepath.Join(dir, "image.json"), &have); err != nil {
		if gone(err) == nil {
			err = core.Errorf(core.ErrNotFound, "image %s is not here any more as it was (%s)", name, digest)
		}
		return origin{}, err
	}
	return origin{root: filepath.Join(dir, "root"), binds: have.Binds, masks: have.Masks, env: have.Env}, nil
}

// keepAgent copies the agent to where it stays: boxes outlive the server's own files. The copy is
// named by its content, and is never changed.
func (b *Backend) keepAgent(file agentfile.File) (string, error) {
	dir := filepath.Join(b.folders.agents(), file.Name)
	target := filepath.Join(dir, filepath.Base(core.GuestAgent))
	if info, err := os.Stat(target); err == nil && info.Size() == file.Size {
		return dir, nil
	}
	content, err := os.ReadFile(file.Path)
	if err != nil {
		return "", core.Errorf(core.ErrUnavailable, "the agent cannot be read: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the folders above it are private
		return "", err
	}
	b.dropAgents(file.Name)
	return dir, writeFile(target, content, 0o555)
}

// agentAge is how long an agent that no box has is kept: another server may be about to use it.
const agentAge = 24 * time.Hour

// dropAgents removes the agents of older builds.
func (b *Backend) dropAgents(keep string) {
	used := map[string]bool{keep: true}
	boxes, _ := os.ReadDir(b.folders.boxes()) // none, none uses any
	for _, box := range boxes {
		if rec, _, err := b.readBox(box.Name()); err == nil {
			used[rec.Agent] = true
		}
	}
	agents, _ := os.ReadDir(b.folders.agents()) // what cannot be read stays
	for _, agent := range agents {
		if info, err := agent.Info(); err == nil && !used[agent.Name()] && time.Since(info.ModTime()) > agentAge {
			_ = os.RemoveAll(filepath.Join(b.folders.agents(), agent.Name())) // the next new build tries again
		}
	}
}
