package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// run runs a command to its end, on so many processors and with one end of a stream. It is a session of its
// own with nothing else of the plugin's, as the boxes that it starts outlive the plugin.
func run(ctx context.Context, cpus int, path string, args []string, stream *os.File) error {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // runsc, with the backend's own words
	cmd.Env = bareEnv()
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{stream}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := startOn(cmd, cpus); err != nil {
		return err
	}
	return cmd.Wait()
}

// List implements execution.Backend.
func (b *Backend) List(ctx context.Context, instance string) (core.Inventory, error) {
	if _, err := b.ready(ctx); err != nil {
		return core.Inventory{}, err
	}
	entries, err := os.ReadDir(b.folders.boxes())
	if err != nil {
		return core.Inventory{}, fail(ctx, err, "the boxes could not be listed")
	}
	var have core.Inventory
	alive := running(b.processes())
	for _, entry := range entries {
		rec, labels, err := b.readBox(entry.Name())
		if err != nil || labels.Instance != instance {
			continue // somebody else's, or on its way
		}
		have.Boxes = append(have.Boxes, b.boxOf(entry.Name(), rec, labels, alive[entry.Name()]))
	}
	have.Volumes, err = b.listVolumes(instance)
	return have, fail(ctx, err, "the volumes could not be listed")
}

func (b *Backend) boxOf(id string, rec record, labels core.Labels, alive bool) core.Box {
	box := core.Box{ID: id, Image: rec.Image, Labels: labels, State: core.BoxStopped, Created: rec.Created}
	if alive {
		box.State = core.BoxRunning
	}
	box.OOMKilled = b.machine.cgroups.oomKilled(id) // a box may survive it
	return box
}

// readBox returns fs.ErrNotExist for what is not a box of Boxwright's.
func (b *Backend) readBox(id string) (rec record, labels core.Labels, err error) {
	if !isID(id) {
		return rec, labels, fs.ErrNotExist
	}
	if err := readJSON(b.folders.record(id), &rec); err != nil {
		return rec, labels, err
	}
	labels, ours := core.ParseLabels(rec.Labels)
	if !ours {
		return rec, labels, fs.ErrNotExist
	}
	return rec, labels, nil
}

// Destroy implements execution.Backend.
func (b *Backend) Destroy(ctx context.Context, box string) error {
	if _, err := b.ready(ctx); err != nil {
		return err
	}
	if !isID(box) {
		if b.isForeign(box) {
			return noBox()
		}
		return nil // nothing has such an id
	}
	removeCtx, cancel := patience.Slow(ctx)
	defer cancel()
	return fail(removeCtx, b.remove(removeCtx, box), "the box could not be removed")
}

// isForeign reports whether runsc has a container of that id, which is then somebody else's.
func (b *Backend) isForeign(id string) bool {
	if !regexp.MustCompile(`^[A-Za-z0-9_+.-]{1,64}$`).MatchString(id) {
		return false
	}
	return len(b.bookkeeping(id)) > 0
}

// bookkeeping are runsc's own files about a container.
func (b *Backend) bookkeeping(id string) []string {
	var files []string
	for _, pattern := range []string{id + "_*", "runsc-" + id + ".*"} {
		found, _ := filepath.Glob(filepath.Join(b.folders.runsc(), pattern)) // the pattern is well-formed
		files = append(files, found...)
	}
	return files
}

// remove ends all processes of a box and removes what there is of it, its record last: what is
// interrupted can be done again. It does not ask runsc, which waits for what hangs.
func (b *Backend) remove(ctx context.Context, id string) error {
	b.first.Drop(id)
	if err := b.killAll(ctx, id); err != nil {
		return err
	}
	all := []error{b.machine.cgroups.remove(id)}
	for _, file := range b.bookkeeping(id) {
		all = append(all, gone(os.Remove(file)))
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	entries, _ := os.ReadDir(b.folders.box(id)) // it may be gone
	for _, entry := range entries {
		if entry.Name() != filepath.Base(b.folders.record(id)) {
			all = append(all, gone(os.RemoveAll(filepath.Join(b.folders.box(id), entry.Name()))))
		}
	}
	return errors.Join(append(all, gone(os.RemoveAll(b.folders.box(id))))...)
}

// gone takes what is not there for removed.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
