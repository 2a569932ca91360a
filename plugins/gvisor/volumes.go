package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boxwright/boxwright/core"
)

// volumeRecord is what is known of a volume. It is written last: what has none is not a volume.
type volumeRecord struct {
	Labels  map[string]string `json:"labels"`
	Created time.Time         `json:"created"`
}

// readVolume returns a volume's record, or core.ErrNotFound.
func (b *Backend) readVolume(name string) (core.Volume, error) {
	missing := core.Errorf(core.ErrNotFound, "there is no volume %s", name)
	if core.CheckVolumeName(name) != nil {
		return core.Volume{}, missing
	}
	var rec volumeRecord
	err := readJSON(b.folders.volumeFile(name), &rec)
	labels, ours := core.ParseLabels(rec.Labels)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !ours:
		return core.Volume{}, missing
	case err != nil:
		return core.Volume{}, err
	}
	return core.Volume{Name: name, Labels: labels, Created: rec.Created}, nil
}

func (b *Backend) listVolumes(instance string) ([]core.Volume, error) {
	entries, err := os.ReadDir(b.folders.volumes())
	if err != nil {
		return nil, err
	}
	var list []core.Volume
	for _, entry := range entries {
		if v, err := b.readVolume(entry.Name()); err == nil && v.Labels.Instance == instance {
			list = append(list, v)
		}
	}
	return list, nil
}

// EnsureVolume implements execution.Backend.
func (b *Backend) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	if err := core.CheckVolumeName(v.Name); err != nil {
		return core.Volume{}, err
	}
	if _, err := b.ready(ctx); err != nil {
		return core.Volume{}, err
	}
	unlock, err := lock(ctx, b.folders.volumes())
	if err != nil {
		return core.Volume{}, fail(ctx, err, "volume %s could not be made", v.Name)
	}
	defer unlock()
	have, err := b.readVolume(v.Name)
	if core.KindOf(err) != core.ErrNotFound {
		return have, fail(ctx, err, "volume %s could not be read", v.Name)
	}
	if b.isForeignVolume(v.Name) {
		return core.Volume{}, core.Errorf(core.ErrNotFound, "volume %s exists and is not Boxwright's", v.Name)
	}
	made := core.Volume{Name: v.Name, Labels: v.Labels, Created: time.Now().UTC()}
	return made, fail(ctx, b.makeVolume(made), "volume %s could not be made", v.Name)
}

// isForeignVolume recognises what somebody else put there: a file, or a folder with a record that
// is not one. A folder without a record is a half-made or half-removed volume.
func (b *Backend) isForeignVolume(name string) bool {
	info, err := os.Lstat(b.folders.volume(name))
	if err != nil {
		return false
	}
	_, err = os.Lstat(b.folders.volumeFile(name))
	return !info.IsDir() || err == nil
}

// makeVolume makes the volume's folder the box's user's. An ordinary user's boxes have that user
// for their own; see planUsers.
func (b *Backend) makeVolume(v core.Volume) error {
	if err := os.RemoveAll(b.folders.volume(v.Name)); err != nil {
		return err
	}
	data := b.folders.data(v.Name)
	if err := os.MkdirAll(data, private); err != nil {
		return err
	}
	if err := os.Chmod(data, 0o755); err != nil { //nolint:gosec // the folders above it are private
		return err
	}
	if err := b.giveToBoxes(data); err != nil {
		return err
	}
	if v.Labels.Purpose == core.PurposeZone { // from the beginning: boxes remember what is not there
		zone := filepath.Join(data, core.ZoneFolder)
		if err := errors.Join(os.Mkdir(zone, core.ZoneMode), b.giveToBoxes(zone)); err != nil {
			return err
		}
	}
	return writeJSON(b.folders.volumeFile(v.Name), volumeRecord{Labels: v.Labels.Map(), Created: v.Created})
}

// giveToBoxes makes a folder the box's user's.
func (b *Backend) giveToBoxes(folder string) error {
	if b.machine.uid != 0 {
		return nil
	}
	return os.Chown(folder, core.GuestUID, core.GuestGID)
}

// RemoveVolume implements execution.Backend. Its files go when nobody waits for the lock, which
// every Create takes: there may be many.
func (b *Backend) RemoveVolume(ctx context.Context, name string) error {
	if err := core.CheckVolumeName(name); err != nil {
		return err
	}
	if _, err := b.ready(ctx); err != nil {
		return err
	}
	unlock, err := lock(ctx, b.folders.volumes())
	if err != nil {
		return fail(ctx, err, "volume %s could not be removed", name)
	}
	left := holdLeft(b.folders.volumes(), removed)
	mine, err := b.takeAway(name)
	unlock()
	removeLeft(left)
	if err == nil && mine.dir != "" {
		err = mine.remove()
	}
	return fail(ctx, err, "volume %s could not be removed", name)
}

// removed begins the names of volumes that are none any more.
const removed = ".gone-"

// takeAway makes a volume's folder no volume's, all at once. The caller has the lock, and removes
// the folder; it is empty if there is nothing to remove.
func (b *Backend) takeAway(name string) (held, error) {
	_, err := b.readVolume(name)
	switch {
	case core.KindOf(err) == core.ErrNotFound && !b.isForeignVolume(name): // what is left of one goes
	case err != nil:
		return held{}, err
	case b.inUse(name):
		return held{}, core.Errorf(core.ErrUnavailable, "volume %s is in use by a box", name)
	}
	return moveAway(b.folders.volume(name), b.folders.volume(removed+rand.Text()))
}

// inUse reports whether a box has the volume, whether it runs or not.
func (b *Backend) inUse(name string) bool {
	entries, _ := os.ReadDir(b.folders.boxes()) // none, none uses it
	for _, entry := range entries {
		if rec, _, err := b.readBox(entry.Name()); err == nil && slices.Contains(rec.Volumes, name) {
			return true
		}
	}
	return false
}
