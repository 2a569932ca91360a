package workspace

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// maxListed bounds the files of a list.
const maxListed = 10000

// List returns what lies in a folder and, if recursive, in those below it, by path; dir "" is the workspace. cut
// says that there is more.
func (w *Workspace) List(dir string, recursive bool) (files []core.FileEntry, cut bool, err error) {
	folder, prefix, err := w.folder(dir)
	if err != nil {
		return nil, false, err
	}
	found := &Snapshot{entries: map[string]entry{}}
	(&walker{snapshot: found, left: maxEntries, flat: !recursive}).folder(folder, prefix, maxDepth)
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(found.entries)) {
		e := found.entries[name]
		if len(name) > maxPath {
			found.cut = true
			continue
		}
		if bytes += len(name); bytes > maxNameBytes || len(files) == maxListed {
			return files, true, nil
		}
		files = append(files, listed(name, e))
	}
	return files, found.cut, nil
}

func listed(name string, e entry) core.FileEntry {
	listed := core.FileEntry{Path: name, Kind: core.FileOther, Modified: time.Unix(e.mtime.Unix())}
	switch {
	case e.is(unix.S_IFREG):
		listed.Kind, listed.Size = core.FileRegular, e.size
	case e.is(unix.S_IFDIR):
		listed.Kind = core.FileFolder
	case e.is(unix.S_IFLNK):
		listed.Kind = core.FileLink
	}
	return listed
}

// folder opens a folder, and returns what the paths of the files in it begin with.
func (w *Workspace) folder(name string) (folder *os.File, prefix string, err error) {
	if name == "" {
		folder, err = openFolder(w.root, ".")
		return folder, "", describe(".", err)
	}
	if err := CheckPath(name); err != nil {
		return nil, "", err
	}
	dir, last, err := w.parent(name, false)
	if err != nil {
		return nil, "", describe(name, err)
	}
	defer dir.Close() //nolint:errcheck // only read
	folder, err = openFolder(dir, last)
	if errors.Is(err, unix.ENOTDIR) {
		err = core.Errorf(core.ErrInvalid, "%q is not a folder", name)
	}
	return folder, name + "/", describe(name, err)
}

// Remove removes a file, or a link but not what it leads to.
func (w *Workspace) Remove(name string) error {
	if err := CheckPath(name); err != nil {
		return err
	}
	dir, last, err := w.parent(name, false)
	if err != nil {
		return describe(name, err)
	}
	defer dir.Close() //nolint:errcheck // only read
	if e, err := look(dir, last); err == nil && e.is(unix.S_IFDIR) {
		return core.Errorf(core.ErrInvalid, "%q is a folder", name).
			WithHint("a command removes a folder with all that is in it: rm -r")
	}
	return describe(name, unix.Unlinkat(int(dir.Fd()), last, 0))
}
