package gvisor

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/boxwright/boxwright/core"
)

// storeLayers unpacks the layers that are not here yet, and returns the names of all, lowest first.
func (b *Backend) storeLayers(ctx context.Context, image v1.Image, report func(done, total int64)) ([]string, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	var names []string
	var total, done int64
	for _, layer := range layers {
		if size, err := layer.Size(); err == nil {
			total += size
		}
	}
	left := b.settings.MaxImageBytes
	for _, layer := range layers {
		id, err := layer.DiffID()
		if err != nil {
			return nil, err
		}
		names = append(names, id.Hex)
		if _, err := os.Stat(b.folders.layer(id.Hex)); err != nil {
			if left, err = b.storeLayer(ctx, layer, id, left); err != nil {
				return nil, err
			}
		}
		if size, err := layer.Size(); err == nil {
			done += size
		}
		report(done, total)
	}
	return names, nil
}

// storeLayer unpacks one layer, whose content must be what its name says. It returns how many
// bytes the image may still have.
func (b *Backend) storeLayer(ctx context.Context, layer v1.Layer, id v1.Hash, left int64) (int64, error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return left, err
	}
	defer func() { _ = content.Close() }() // it was only read
	temp, err := b.tempFolder()
	if err != nil {
		return left, err
	}
	defer func() { _ = removeTree(temp) }() // it is not there any more when all went well
	hash := sha256.New()
	u := unpacker{ctx: ctx, left: left, own: b.machine.uid == 0}
	stream := io.TeeReader(content, hash)
	if err := u.unpack(stream, temp); err != nil {
		return left, err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // what follows the archive's end
		return left, err
	}
	if hex.EncodeToString(hash.Sum(nil)) != id.Hex {
		return left, core.Errorf(core.ErrInvalid, "a layer is not what its name %s says", id)
	}
	return u.left, settled(temp, b.folders.layer(id.Hex))
}

// unpacker unpacks an archive that a stranger made. All that it writes goes through an os.Root,
// which no path and no link leads out of. Devices, pipes and sockets are left out, and so are
// extended attributes and the bits that give rights.
type unpacker struct {
	ctx   context.Context
	left  int64 // bytes that may still be written
	files int   // entries so far
	own   bool  // entries get the archive's owners; only root can do that
	root  *os.Root
}

// Bounds of one layer, besides its bytes.
const (
	maxEntries = 2_000_000
	maxDepth   = 255
)

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
		return ended(u.ctx)
	}
	if u.files++; u.files > maxEntries {
		return core.Errorf(core.ErrExhausted, "a layer has more than %d files", maxEntries)
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
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return damaged(header, err)
	}
	return damaged(header, u.write(name, header, content))
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
	if err == nil || isOurs(err) || kindOf(err) == core.ErrExhausted {
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
	if header.Size > u.left {
		return core.Errorf(core.ErrExhausted, "the image is bigger than max_image_bytes allows").
			WithHint("raise backends.gvisor.settings.max_image_bytes")
	}
	u.left -= header.Size
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

// Whiteouts are how a layer takes away what lower ones have.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// assemble puts layers together to an image's root folder. Folders are made anew, files are the
// layers' own, by hard links: they are stored once, and boxes see them read-only.
func (b *Backend) assemble(ctx context.Context, hex string, layers []string, rec imageRecord) error {
	temp, err := b.tempFolder()
	if err != nil {
		return err
	}
	defer func() { _ = removeTree(temp) }() // it is not there any more when all went well
	root, err := os.OpenRoot(b.folders.cache)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only used
	rel, err := filepath.Rel(b.folders.cache, filepath.Join(temp, "root"))
	if err != nil {
		return err
	}
	if err := root.Mkdir(rel, 0o755); err != nil {
		return err
	}
	a := assembler{ctx: ctx, root: root, own: b.machine.uid == 0}
	for _, layer := range layers {
		if err := a.merge(path.Join("layers", layer), rel); err != nil {
			return err
		}
	}
	if err := mountPoints(filepath.Join(temp, "root")); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(temp, "image.json"), rec); err != nil {
		return err
	}
	return settled(temp, b.folders.image(hex))
}
