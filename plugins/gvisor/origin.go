package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"

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
	return dir, writeFile(target, content, 0o555)
}
