package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// held is a folder that somebody is at work in for a while, without a lock on what is around it.
// Its own lock tells others so, and ends with the process.
type held struct {
	dir  string
	file *os.File
}

// hold takes a folder that nobody holds. The caller has the lock of what is around it.
func hold(dir string) (held, error) {
	file, err := os.Open(dir) //nolint:gosec // below the backend's own folders
	if err != nil {
		return held{}, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return held{}, errors.Join(err, file.Close())
	}
	return held{dir: dir, file: file}, nil
}

// remove removes the folder, if it is still there, and lets it go.
func (h held) remove() error { return errors.Join(removeTree(h.dir), h.file.Close()) }

// moveAway takes a folder that nobody holds and moves it to where it is nothing any more, all at once. The caller has the
// lock of what is around it, and removes what is returned, which is empty if there was nothing.
func moveAway(from, to string) (held, error) {
	mine, err := hold(from)
	if err != nil {
		return held{}, gone(err)
	}
	mine.dir = to
	if err := os.Rename(from, to); err != nil {
		return held{}, errors.Join(err, mine.file.Close())
	}
	return mine, nil
}

// holdLeft takes the folders whose names begin so and that nobody holds: whoever did has died. The
// caller has the lock of what is around them.
func holdLeft(parent, prefix string) []held {
	var left []held
	dirs, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		if h, err := hold(dir); err == nil {
			left = append(left, h)
		}
	}
	return left
}

// removeLeft removes what holdLeft took. The next one tries again what cannot be removed.
func removeLeft(left []held) {
	for _, h := range left {
		_ = h.remove()
	}
}

// newScratch makes a folder to make something for the cache in, on the same file system, and
// removes those of processes that died. The cache's lock is taken for a moment only: what an image
// is fetched into may be needed for long, and others fetch theirs meanwhile. Two servers that
// fetch the same one at the same time both do, and the first one's stays.
func (b *Backend) newScratch(ctx context.Context) (held, error) {
	unlock, err := lock(ctx, b.folders.cache)
	if err != nil {
		return held{}, err
	}
	left := holdLeft(b.folders.scratch(), temporary)
	dir, err := os.MkdirTemp(b.folders.scratch(), temporary+"*")
	var made held
	if err == nil {
		made, err = hold(dir)
	}
	unlock()
	removeLeft(left)
	return made, err
}

// release removes what newScratch made, and then images that are too many.
func (b *Backend) release(temp held) {
	_ = temp.remove() // the next one does it otherwise
	b.collectLater()
}

// settled moves a finished folder to its place. Should somebody have been faster, his stays.
func settled(temp, place string) error {
	err := os.Rename(temp, place)
	if _, statErr := os.Stat(place); err != nil && statErr == nil {
		return nil
	}
	return err
}
