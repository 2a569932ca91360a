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
	image string   // its digest, without "sha256:"
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
	if err := mountPoints(from.root); err != nil { // an earlier version may have put it together, with fewer
		return origin{}, fail(ctx, err, "image %s could not be made ready", spec.Image)
	}
	file, err := b.agents.Of(spec.Image, runtime.GOARCH)
	if err == nil {
		from.agent, err = b.keepAgent(ctx, file)
	}
	return from, fail(ctx, err, "the agent could not be copied to where boxes see it")
}

// imageFile lies beside an image's root folder. It is as old as the last wish for the image.
const imageFile = "image.json"

// readImage returns the unpacked image of that content, which somebody wants.
func (b *Backend) readImage(name, digest string) (origin, error) {
	hex := strings.TrimPrefix(digest, "sha256:")
	dir := b.folders.image(hex)
	var have imageRecord
	if err := readJSON(filepath.Join(dir, imageFile), &have); err != nil {
		if gone(err) == nil {
			err = core.Errorf(core.ErrNotFound, "image %s is not here any more as it was (%s)", name, digest)
		}
		return origin{}, err
	}
	file := filepath.Join(dir, imageFile)
	if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > imageGrace/4 {
		_ = os.Chtimes(file, time.Time{}, time.Now()) // it would be collected too soon at the worst
	}
	return origin{image: hex, root: filepath.Join(dir, "root"), binds: have.Binds, masks: have.Masks, env: have.Env}, nil
}

// agentAge is how long an agent that no box has is kept: somebody may be about to make a box with it.
const agentAge = 24 * time.Hour

// keepAgent copies the agent to where it stays: boxes outlive the server's own files. The copy is
// named by its content, and is never changed; that it is whole is seen, and that somebody wants it
// is told, long before agentAge is over.
func (b *Backend) keepAgent(ctx context.Context, file agentfile.File) (string, error) {
	dir := filepath.Join(b.folders.agents(), file.Name)
	target := filepath.Join(dir, filepath.Base(core.GuestAgent))
	if at, ok := b.kept.Load(file.Name); ok {
		seen, _ := at.(time.Time) // nothing else is stored
		if info, err := os.Stat(target); err == nil && info.Size() == file.Size && time.Since(seen) < agentAge/24 {
			return dir, nil
		}
	}
	unlock, err := lock(ctx, b.folders.agents())
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := b.copyAgent(file, dir, target); err != nil {
		return "", err
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return "", err
	}
	b.kept.Store(file.Name, now)
	b.dropAgents(file.Name)
	return dir, nil
}

// copyAgent makes the copy, unless there is one that is whole.
func (b *Backend) copyAgent(file agentfile.File, dir, target string) error {
	have, err := agentfile.New(map[string]string{runtime.GOARCH: target}).Of("", runtime.GOARCH)
	if err == nil && have.Name == file.Name {
		return nil
	}
	content, err := os.ReadFile(file.Path)
	if err != nil {
		return core.Errorf(core.ErrUnavailable, "the agent cannot be read: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the folders above it are private
		return err
	}
	return writeFile(target, content, 0o555)
}

// dropAgents removes the agents of older builds. The caller has the agents' lock.
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
		info, err := agent.Info()
		if err == nil && info.IsDir() && !used[agent.Name()] && time.Since(info.ModTime()) > agentAge {
			_ = os.RemoveAll(filepath.Join(b.folders.agents(), agent.Name())) // the next new build tries again
		}
	}
}
