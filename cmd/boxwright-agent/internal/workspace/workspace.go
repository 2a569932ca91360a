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
	"path"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// Workspace is the folder that host and code share.
type Workspace struct {
	root *os.Root
	dir  string

	mu    sync.Mutex
	since *Snapshot // of the run in progress
}

// Open opens the workspace at dir.
func Open(dir string) (*Workspace, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, core.Errorf(core.ErrUnsupported, "the workspace cannot be opened: %w", err)
	}
	return &Workspace{root: root, dir: dir}, nil
}

// Open opens a regular file for reading.
func (w *Workspace) Open(name string) (*os.File, error) {
	if err := CheckPath(name); err != nil {
		return nil, err
	}
	if err := w.refuseLinks(name); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK a fifo would hold the caller up until somebody writes to it.
	file, err := w.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, describe(name, err)
	}
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

// refuseLinks fails if a part of name is a symbolic link. That a part becomes one afterwards can only
// lead to another file of the workspace: os.Root sees to that.
func (w *Workspace) refuseLinks(name string) error {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := w.root.Lstat(name[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return describe(name, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return core.Errorf(core.ErrInvalid, "%q is a symbolic link; links are not followed", name[:i])
		}
	}
	return nil
}

// Part is a file that is being written. It appears under its name when it is committed.
type Part struct {
	w    *Workspace
	name string
	temp string
	file *os.File
}

// Create begins to write a file, and makes the folders that it is in.
func (w *Workspace) Create(name string) (*Part, error) {
	if err := CheckPath(name); err != nil {
		return nil, err
	}
	folder := path.Dir(name)
	if folder != "." {
		if err := w.refuseLinks(folder); err != nil {
			return nil, err
		}
		if err := w.root.MkdirAll(folder, 0o777); err != nil {
			return nil, describe(name, err)
		}
	}
	if info, err := w.root.Lstat(name); err == nil && info.IsDir() {
		return nil, core.Errorf(core.ErrInvalid, "%q is a folder", name)
	}
	temp := path.Join(folder, partPrefix+rand.Text()+partSuffix)
	file, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, describe(name, err)
	}
	return &Part{w: w, name: name, temp: temp, file: file}, nil
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
	if err := p.w.root.Rename(p.temp, p.name); err != nil {
		return describe(p.name, err)
	}
	p.temp = ""
	p.w.written(p.name)
	return nil
}

// Discard removes what was not committed; after Commit it does nothing.
func (p *Part) Discard() {
	_ = p.file.Close()
	if p.temp != "" {
		_ = p.w.root.Remove(p.temp)
	}
}

// written keeps a file that the host writes during a run from being taken for the run's.
func (w *Workspace) written(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		return
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		w.since.entries[name] = entry{
			mode: stat.Mode, size: stat.Size, inode: stat.Ino,
			mtime: unix.Timespec(stat.Mtim), ctime: unix.Timespec(stat.Ctim),
		}
	}
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
	case errors.Is(err, syscall.ELOOP), strings.Contains(err.Error(), "escapes from parent"):
		return core.Errorf(core.ErrInvalid, "%q leads through a symbolic link; links are not followed", name)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENXIO), errors.Is(err, fs.ErrExist):
		return core.Errorf(core.ErrInvalid, "%q is not a regular file, or lies in something that is not a folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return core.Errorf(core.ErrInvalid, "the path is too long")
	}
	return core.Errorf(core.ErrInternal, "%q: %w", name, err)
}
