// Package keep copies a tree that nobody vouches for to where many will read it, and removes such trees.
//
// It is for the box that puts what an installer made into a zone of environments. That box runs nothing else, so
// that nothing but this writes there. The tree is hostile: whatever is no plain file, folder or link within the
// tree is refused, sizes are bounded, and nothing that is read from it is followed or run.
package keep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// Limits bound what is copied.
type Limits struct {
	Bytes   int64
	Entries int64 // files, folders and links
}

// Kept is what was copied.
type Kept struct {
	Bytes   int64 `json:"bytes"`
	Entries int64 `json:"entries"`
}

const (
	maxDepth = 64
	maxPath  = 2048 // bytes, within the tree

	// unfinished ends the name of a copy that is not whole yet.
	unfinished = ".part"
)

// Copy copies the folder source to target, which must not exist: whole and read-only, or not at all. The folder
// that target is in is made if need be, and shows its names to nobody. Times of files are kept, as bytecode goes by them.
// When it returns, the copy outlives the machine's crash.
func Copy(source, target string, l Limits) (Kept, error) {
	if err := os.Mkdir(filepath.Dir(target), core.ZoneMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return Kept{}, failed(err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return Kept{}, core.Errorf(core.ErrInternal, "there is a copy already")
	}
	part := target + unfinished
	if err := errors.Join(drop(part), os.Mkdir(part, 0o700)); err != nil {
		return Kept{}, failed(err)
	}
	kept, err := fill(source, part, target, l)
	if err != nil {
		_ = drop(part) // it is never used, and a sweep removes it
	}
	return kept, err
}

// fill copies the tree into part and gives it its name.
func fill(source, part, target string, l Limits) (Kept, error) {
	from, err := os.OpenFile(source, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0) //nolint:gosec // the host names it
	if err != nil {
		return Kept{}, failed(err)
	}
	defer from.Close()       //nolint:errcheck // it was only read
	to, err := os.Open(part) //nolint:gosec // it was just made
	if err != nil {
		return Kept{}, failed(err)
	}
	defer to.Close() //nolint:errcheck // it is a folder
	c := copier{limits: l}
	if err := c.folder(from, to, "", 0); err != nil {
		return Kept{}, err
	}
	if err := os.Rename(part, target); err != nil {
		return Kept{}, failed(err)
	}
	return c.kept, failed(unix.Syncfs(int(to.Fd()))) // the folder that it is in cannot be opened
}

// Drop removes copies, finished or not. One that is not there is removed already.
func Drop(targets ...string) error {
	var errs []error
	for _, target := range targets {
		for _, tree := range []string{target, target + unfinished} {
			errs = append(errs, failed(drop(tree)))
		}
	}
	return errors.Join(errs...)
}

// drop makes the folders writable, and removes them. Links are not followed. The folder that the tree is in need
// not be readable.
func drop(tree string) error {
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700) //nolint:gosec // to remove what is in it
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, readErr := os.ReadDir(tree)
	err = errors.Join(err, readErr)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(tree, entry.Name())))
	}
	return errors.Join(err, os.Remove(tree))
}

// failed gives an error of the system's its kind.
func failed(err error) error {
	switch {
	case err == nil || core.KindOf(err) != core.ErrInternal:
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return core.Errorf(core.ErrExhausted, "there is no room for the packages: %w", err).
			WithHint("the operator can make room on the engine's disk, or lower dependencies.keep.max_size")
	}
	return core.Errorf(core.ErrInternal, "the packages could not be kept: %w", err)
}
