// Package workspace reads and writes the files of a box for its host, and tells which of them a run
// changed.
//
// Every name comes either from a client or from code that nobody has reviewed, so nothing here leaves
// the workspace, follows a link, opens anything but a regular file, or walks without a bound. It knows
// no processes: a walk is made while none of the code's are alive.
package workspace

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// Workspace is the folder that host and code share.
type Workspace struct {
	root *os.File
	dir  string

	mu    sync.Mutex
	since *Snapshot // of the run in progress
}

// Open opens the workspace at dir.
func Open(dir string) (*Workspace, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, core.Errorf(core.ErrUnsupported, "the workspace cannot be opened: %w", err)
	}
	return &Workspace{root: os.NewFile(uintptr(fd), dir), dir: dir}, nil
}

// Reclaim gives the owner of the workspace back the rights in it, if code has taken from it that of entering or
// listing it: no later run could begin.
func (w *Workspace) Reclaim() {
	const entered, owned = unix.S_IRUSR | unix.S_IXUSR, unix.S_IRWXU
	var stat unix.Stat_t
	fd := int(w.root.Fd())
	if unix.Fstat(fd, &stat) == nil && stat.Mode&entered != entered {
		_ = unix.Fchmod(fd, stat.Mode&0o7777|owned) // or the run says that it cannot begin
	}
}

// Open opens a regular file for reading.
func (w *Workspace) Open(name string) (*os.File, error) {
	if err := CheckPath(name); err != nil {
		return nil, err
	}
	dir, last, err := w.parent(name, false)
	if err != nil {
		return nil, describe(name, err)
	}
	defer dir.Close() //nolint:errcheck // only read
	// Without O_NONBLOCK a fifo would hold the caller up until somebody writes to it.
	fd, err := unix.Openat(int(dir.Fd()), last, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, describe(name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = core.Errorf(core.ErrInvalid, "%q is not a regular file", name)
	}
	if err != nil {
		_ = file.Close()
		return nil, describe(name, err)
	}
	return file, nil
}

// Part is a file that is being written. It appears under its name when it is committed.
type Part struct {
	w    *Workspace
	name string
	dir  *os.File // that it is in
	last string   // its name in there
	temp string   // as long as it is not whole
	file *os.File
}

// Create begins to write a file, and makes the folders that it is in.
func (w *Workspace) Create(name string) (*Part, error) {
	if err := CheckPath(name); err != nil {
		return nil, err
	}
	dir, last, err := w.parent(name, true)
	if err != nil {
		return nil, describe(name, err)
	}
	part, err := w.begin(name, dir, last)
	if err != nil {
		_ = dir.Close()
		return nil, describe(name, err)
	}
	return part, nil
}

func (w *Workspace) begin(name string, dir *os.File, last string) (*Part, error) {
	if e, err := look(dir, last); err == nil && e.is(unix.S_IFDIR) {
		return nil, core.Errorf(core.ErrInvalid, "%q is a folder", name)
	}
	temp := partPrefix + rand.Text() + partSuffix
	fd, err := unix.Openat(int(dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil, err
	}
	return &Part{w: w, name: name, dir: dir, last: last, temp: temp, file: os.NewFile(uintptr(fd), name)}, nil
}

// Write adds bytes.
func (p *Part) Write(data []byte) error {
	if _, err := p.file.Write(data); err != nil {
		return describe(p.name, err)
	}
	return nil
}

// Commit gives the file its name. A link of that name is replaced, not followed.
func (p *Part) Commit() error {
	if err := p.file.Close(); err != nil {
		return describe(p.name, err)
	}
	if err := p.w.appear(p); err != nil {
		return describe(p.name, err)
	}
	p.temp = ""
	return nil
}

// Discard removes what was not committed; after Commit it only closes.
func (p *Part) Discard() {
	_ = p.file.Close()
	if p.temp != "" {
		_ = unix.Unlinkat(int(p.dir.Fd()), p.temp, 0)
	}
	_ = p.dir.Close()
}

// appear keeps a file that the host writes during a run from being taken for the run's: it is there before the
// run's snapshot is made, or put into it.
func (w *Workspace) appear(p *Part) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := int(p.dir.Fd())
	if err := unix.Renameat(dir, p.temp, dir, p.last); err != nil || w.since == nil {
		return err
	}
	if e, err := look(p.dir, p.last); err == nil {
		w.since.entries[p.name] = e
	}
	return nil
}

// ReadAt reads a piece of a regular file, and tells how many bytes the file has: exactly so many as end the
// piece, if nothing came after it.
func (w *Workspace) ReadAt(name string, data []byte, offset int64) (n int, size int64, err error) {
	file, err := w.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close() //nolint:errcheck // only read
	if offset < 0 {
		return 0, 0, core.Errorf(core.ErrInvalid, "the offset is negative")
	}
	n, err = file.ReadAt(data, offset)
	ended := errors.Is(err, io.EOF)
	if err != nil && !ended {
		return 0, 0, describe(name, err)
	}
	info, err := file.Stat()
	switch end := offset + int64(n); {
	case err != nil:
		return 0, 0, describe(name, err)
	case ended && n > 0:
		return n, end, nil // whatever has been added since
	default:
		return n, info.Size(), nil
	}
}

// describe gives an error of the file system its kind and a sentence.
func describe(name string, err error) error {
	var known *core.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return core.Errorf(core.ErrNotFound, "there is no file %q in the workspace", name)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENOMEM):
		return core.Errorf(core.ErrExhausted, "the box's disk is full: %q was not written", name).
			WithHint("remove files from %s or ask for a larger disk", core.GuestWork)
	case errors.Is(err, fs.ErrPermission):
		return core.Errorf(core.ErrInvalid, "the permissions of %q do not allow it", name)
	case errors.Is(err, syscall.ELOOP):
		return core.Errorf(core.ErrInvalid, "%q leads through a symbolic link; links are not followed", name)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENXIO), errors.Is(err, fs.ErrExist):
		return core.Errorf(core.ErrInvalid, "%q is not a regular file, or lies in something that is not a folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return core.Errorf(core.ErrInvalid, "the path is too long")
	}
	return core.Errorf(core.ErrInternal, "%q: %w", name, err)
}
