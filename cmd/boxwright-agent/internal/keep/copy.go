package keep

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// copier copies one tree. Everything in it is reached from its own folder's descriptor, so that no link leads
// anywhere.
type copier struct {
	limits Limits
	kept   Kept
}

// atOnce bounds how many names of a folder are in memory.
const atOnce = 500

// folder copies what is in a folder, and closes it for writing. within is its path in the tree.
func (c *copier) folder(from, to *os.File, within string, depth int) error {
	for {
		names, err := from.Readdirnames(atOnce)
		for _, name := range names {
			if err := c.entry(from, to, name, path.Join(within, name), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return failed(to.Chmod(0o555))
		}
		if err != nil {
			return failed(err)
		}
	}
}

func (c *copier) entry(from, to *os.File, name, within string, depth int) error {
	c.kept.Entries++
	switch {
	case c.kept.Entries > c.limits.Entries:
		return refused("more than %d files and folders", c.limits.Entries)
	case depth == maxDepth || len(within) > maxPath:
		return refused("folders that are too deep, such as %.200q", within)
	}
	var info unix.Stat_t
	if err := unix.Fstatat(int(from.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed(err)
	}
	switch info.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.subfolder(from, to, name, within, depth)
	case unix.S_IFREG:
		return c.file(from, to, name, within)
	case unix.S_IFLNK:
		return c.link(from, to, name, within, depth)
	}
	return refused("%.200q, which is neither a file nor a folder", within)
}

func (c *copier) subfolder(from, to *os.File, name, within string, depth int) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	source, err := open(from, name, flags, 0)
	if err != nil {
		return unreadable(within, err)
	}
	defer source.Close() //nolint:errcheck // it was only read
	if err := unix.Mkdirat(int(to.Fd()), name, 0o700); err != nil {
		return failed(err)
	}
	target, err := open(to, name, flags, 0)
	if err != nil {
		return failed(err)
	}
	defer target.Close() //nolint:errcheck // it is a folder
	return c.folder(source, target, within, depth+1)
}

// file copies a file's content and time; of its mode, whether it is a program.
func (c *copier) file(from, to *os.File, name, within string) error {
	source, err := open(from, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return unreadable(within, err)
	}
	defer source.Close() //nolint:errcheck // it was only read
	info, err := source.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return refused("%.200q, which changes", within)
	}
	target, err := open(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return failed(err)
	}
	err = c.content(source, target, info)
	return errors.Join(err, failed(target.Close()))
}

func (c *copier) content(source, target *os.File, info fs.FileInfo) error {
	left := c.limits.Bytes - c.kept.Bytes
	if info.Size() > left {
		return c.tooLarge()
	}
	n, err := io.Copy(target, io.LimitReader(source, left+1))
	c.kept.Bytes += n
	switch {
	case err != nil:
		return failed(err)
	case n > left:
		return c.tooLarge()
	}
	mode := fs.FileMode(0o444)
	if info.Mode()&0o111 != 0 {
		mode = 0o555
	}
	at := unix.NsecToTimeval(info.ModTime().UnixNano())
	return failed(errors.Join(unix.Futimes(int(target.Fd()), []unix.Timeval{at, at}), target.Chmod(mode)))
}

func (c *copier) tooLarge() error {
	return refused("more than %s", core.FormatBytes(c.limits.Bytes))
}

// link copies a link that stays within the tree.
func (c *copier) link(from, to *os.File, name, within string, depth int) error {
	text := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(int(from.Fd()), name, text)
	if err != nil {
		return unreadable(within, err)
	}
	if n > maxPath || !staysWithin(string(text[:n]), depth) {
		return refused("%.200q, a link that leads out of them", within)
	}
	return failed(unix.Symlinkat(string(text[:n]), int(to.Fd()), name))
}

// staysWithin reports whether a link in a folder of that depth leads to something in the tree. After a name there
// must be no "..": the name may be a link itself.
func staysWithin(link string, depth int) bool {
	if link == "" || path.IsAbs(link) {
		return false
	}
	up := 0
	parts := strings.Split(link, "/")
	for up < len(parts) && (parts[up] == ".." || parts[up] == ".") {
		if parts[up] == ".." {
			depth--
		}
		up++
	}
	return depth >= 0 && !slices.Contains(parts[up:], "..")
}

// open opens what is in a folder and no link.
func open(folder *os.File, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat(int(folder.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func unreadable(within string, err error) error {
	return refused("%.200q, which cannot be read: %w", within, err)
}

// refused is the error of a tree that is not kept.
func refused(format string, args ...any) error {
	return core.Errorf(core.ErrDependency, "the packages are not kept: they hold "+format, args...)
}
