package gvisor

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// unpacker unpacks an archive that a stranger made. All that it writes goes through an os.Root,
// which no path and no link leads out of. Devices, pipes and sockets are left out, and so are
// extended attributes and the bits that give rights.
type unpacker struct {
	ctx  context.Context
	left *budget
	own  bool // entries get the archive's owners; only root can do that
	root *os.Root
}

// maxDepth bounds how deep a layer's folders lie in one another.
const maxDepth = 255

func (u *unpacker) unpack(archive io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only used
	u.root = root
	if err := root.Chmod(".", 0o755); err != nil {
		return err
	}
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = u.entry(header, r)
		}
		if err != nil {
			return err
		}
	}
}

// entry unpacks one entry. One that cannot be where it says is an error: an image that tries to
// get out is not used at all.
func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	if u.ctx.Err() != nil {
		return core.ContextError(u.ctx)
	}
	if err := u.left.take(entryBytes); err != nil {
		return err
	}
	name, err := inside(header.Name)
	if err != nil || name == "." {
		return err
	}
	if header.Typeflag != tar.TypeDir {
		if err := u.clear(name); err != nil {
			return err
		}
	}
	if err := u.parents(path.Dir(name)); err != nil {
		return damaged(header, err)
	}
	return damaged(header, u.write(name, header, content))
}

// parents makes the folders that an entry is in and the archive does not mention.
func (u *unpacker) parents(dir string) error {
	if _, err := u.root.Stat(dir); err == nil {
		return nil // a file, the writing tells
	}
	parts := strings.Split(dir, "/")
	there := sort.Search(len(parts), func(i int) bool {
		_, err := u.root.Stat(path.Join(parts[:i+1]...))
		return err != nil
	})
	if err := u.left.take(int64(len(parts)-there) * entryBytes); err != nil {
		return err
	}
	return u.root.MkdirAll(dir, 0o755)
}

// inside checks an entry's name, and returns it relative to the root.
func inside(name string) (string, error) {
	clean := path.Clean("/" + name)[1:]
	if clean == "" {
		return ".", nil
	}
	escapes := func(part string) bool { return part == ".." }
	for part := range strings.SplitSeq(name, "/") {
		if escapes(part) {
			return "", core.Errorf(core.ErrInvalid, "a layer has an entry %q, which leads out of it", name)
		}
	}
	if strings.Count(clean, "/") > maxDepth || strings.Contains(clean, "\x00") {
		return "", core.Errorf(core.ErrInvalid, "a layer has an entry whose name cannot be used")
	}
	return clean, nil
}

func damaged(header *tar.Header, err error) error {
	if err == nil || core.HasKind(err) || kindOf(err) == core.ErrExhausted {
		return err
	}
	return core.Errorf(core.ErrInvalid, "a layer's entry %q cannot be unpacked: %w", header.Name, err)
}

// clear removes what an earlier entry of that name left; a later one replaces it.
func (u *unpacker) clear(name string) error {
	if _, err := u.root.Lstat(name); err != nil {
		return nil // nothing is there, or its folder is no folder, which the writing tells
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) write(name string, header *tar.Header, content io.Reader) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return u.dir(name, header)
	case tar.TypeReg:
		return u.file(name, header, content)
	case tar.TypeSymlink:
		return errors.Join(u.root.Symlink(header.Linkname, name), u.chown(name, header))
	case tar.TypeLink:
		target, err := inside(header.Linkname)
		if err != nil {
			return err
		}
		return u.root.Link(target, name)
	}
	return nil // a device, a pipe, or something of a later format
}

func (u *unpacker) dir(name string, header *tar.Header) error {
	if info, err := u.root.Lstat(name); err == nil && !info.IsDir() {
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := u.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	// The folder's owner must be able to put into it what follows.
	mode := header.FileInfo().Mode().Perm() | private
	if header.FileInfo().Mode()&fs.ModeSticky != 0 {
		mode |= fs.ModeSticky
	}
	return errors.Join(u.chown(name, header), u.root.Chmod(name, mode))
}

func (u *unpacker) file(name string, header *tar.Header, content io.Reader) error {
	if err := u.left.take(header.Size); err != nil {
		return err
	}
	file, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	// Without root, one user owns everything, in the box too.
	mode := header.FileInfo().Mode().Perm()
	if !u.own {
		mode |= 0o400
	}
	// Python takes a compiled file for outdated whose source has another time, and compiles it each time.
	return errors.Join(err, file.Close(), u.chown(name, header), u.root.Chmod(name, mode), u.root.Chtimes(name, time.Time{}, header.ModTime))
}

// chown gives an entry to its owner in the archive.
func (u *unpacker) chown(name string, header *tar.Header) error {
	if !u.own {
		return nil
	}
	return u.root.Lchown(name, header.Uid, header.Gid)
}
