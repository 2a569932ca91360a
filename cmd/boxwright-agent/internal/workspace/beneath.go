package workspace

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// os.Root is not enough to stay in the workspace: it opens folders with O_DIRECTORY and O_NOFOLLOW, and gVisor
// follows a link that is opened so. Without O_DIRECTORY it does not.

// openFolder opens a folder in a folder. A link is ELOOP, anything else ENOTDIR.
func openFolder(at *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(at.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// parent opens the folder that a file is in, part by part and never through a link, and returns the file's name
// in it. With create, folders that are missing are made.
func (w *Workspace) parent(name string, create bool) (dir *os.File, last string, err error) {
	if dir, err = openFolder(w.root, "."); err != nil {
		return nil, "", err
	}
	folder, last := path.Split(name)
	for part := range strings.FieldsFuncSeq(folder, func(r rune) bool { return r == '/' }) {
		next, err := openPart(dir, part, create)
		_ = dir.Close()
		if err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, last, nil
}

func openPart(dir *os.File, part string, create bool) (*os.File, error) {
	next, err := openFolder(dir, part)
	if !create || !errors.Is(err, unix.ENOENT) {
		return next, err
	}
	if err := unix.Mkdirat(int(dir.Fd()), part, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return openFolder(dir, part)
}

// look tells what lies at a name, which may be a link.
func look(dir *os.File, name string) (entry, error) {
	var stat unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return entryOf(&stat), err
}
