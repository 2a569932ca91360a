package workspace

import (
	"errors"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// maxListed bounds the files of a list.
const maxListed = 10000

// List returns the regular files in a folder and in those below it, by path; dir "" is the workspace. cut
// says that there are more.
func (w *Workspace) List(dir string) (files []core.FileInfo, cut bool, err error) {
	folder, prefix, err := w.folder(dir)
	if err != nil {
		return nil, false, err
	}
	found := &Snapshot{entries: map[string]entry{}}
	(&walker{snapshot: found, left: maxEntries, depth: maxDepth}).folder(folder, prefix, maxDepth)
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(found.entries)) {
		e := found.entries[name]
		if !e.is(unix.S_IFREG) || len(name) > maxPath {
			continue
		}
		if bytes += len(name); bytes > maxNameBytes || len(files) == maxListed {
			return files, true, nil
		}
		files = append(files, core.FileInfo{Path: name, Size: e.size})
	}
	return files, found.cut, nil
}

// folder opens a folder, and returns what the paths of the files in it begin with.
func (w *Workspace) folder(dir string) (*os.File, string, error) {
	prefix := ""
	if dir == "" {
		dir = "."
	} else {
		prefix = dir + "/"
		if err := CheckPath(dir); err != nil {
			return nil, "", err
		}
		if err := w.refuseLinks(dir); err != nil {
			return nil, "", err
		}
	}
	file, err := w.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return nil, "", core.Errorf(core.ErrInvalid, "%q is not a folder", dir)
	case err != nil:
		return nil, "", describe(dir, err)
	}
	return file, prefix, nil
}

// Remove removes a file, or a link but not what it leads to.
func (w *Workspace) Remove(name string) error {
	if err := CheckPath(name); err != nil {
		return err
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return describe(name, err)
	}
	if info.IsDir() {
		return core.Errorf(core.ErrInvalid, "%q is a folder", name)
	}
	if err := w.refuseLinks(path.Dir(name)); err != nil {
		return err
	}
	return describe(name, w.root.Remove(name))
}
