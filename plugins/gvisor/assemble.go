package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/boxwright/boxwright/core"
)

// Whiteouts are how a layer takes away what lower ones have.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// assemble puts layers, which are folders of the cache, together to an image's root folder in folder
// temp. Folders are made anew, files are the layers' own, by hard links: they are stored once, and
// boxes see them read-only.
func (b *Backend) assemble(ctx context.Context, temp string, layers []string, rec imageRecord, tell tell) error {
	root, err := os.OpenRoot(b.folders.cache)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only used
	made, err := newRoot(temp)
	if err != nil {
		return err
	}
	a := assembler{ctx: ctx, root: root, own: b.machine.uid == 0, progress: func(files int) {
		tell(fmt.Sprintf(": %d files in place", files), len(layers), len(layers))
	}}
	for _, layer := range layers {
		if err := a.mergeLayer(b.folders.cache, layerRoot(layer), made); err != nil {
			return err
		}
	}
	if err := mountPoints(made); err != nil {
		return err
	}
	return writeJSON(filepath.Join(madeImage(temp), imageFile), rec)
}

// mergeLayer is merge, for absolute paths below the root.
func (a *assembler) mergeLayer(root, from, to string) error {
	from, fromErr := filepath.Rel(root, from)
	to, toErr := filepath.Rel(root, to)
	if err := errors.Join(fromErr, toErr); err != nil {
		return err
	}
	return a.merge(from, to)
}

// assembler merges folders, all of them below one root.
type assembler struct {
	ctx  context.Context
	root *os.Root
	own  bool // see unpacker

	progress func(files int)
	files    int
}

// merge lays what is in folder from over what is in folder to.
func (a *assembler) merge(from, to string) error {
	if a.ctx.Err() != nil {
		return core.ContextError(a.ctx)
	}
	entries, err := a.list(from)
	if err != nil {
		return err
	}
	if err := a.whiteouts(entries, to); err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, whiteout) {
			continue
		}
		if err := a.lay(entry, path.Join(from, name), path.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembler) list(dir string) ([]fs.DirEntry, error) {
	file, err := a.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return file.ReadDir(-1)
}

// whiteouts removes from folder to what a layer takes away.
func (a *assembler) whiteouts(entries []fs.DirEntry, to string) error {
	for _, entry := range entries {
		name, is := strings.CutPrefix(entry.Name(), whiteout)
		switch {
		case entry.Name() == opaque:
			if err := a.empty(to); err != nil {
				return err
			}
		case is && name != "" && name != "." && name != "..":
			if err := a.root.RemoveAll(path.Join(to, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *assembler) empty(dir string) error {
	entries, err := a.list(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := a.root.RemoveAll(path.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// lay puts one entry in its place. What is there is replaced, unless both are folders; a link that
// is there is never followed.
func (a *assembler) lay(entry fs.DirEntry, from, to string) error {
	const often = 10_000
	if a.files++; a.files%often == 0 {
		a.progress(a.files)
	}
	have, err := a.root.Lstat(to)
	there := err == nil
	if there && (!have.IsDir() || !entry.IsDir()) {
		if err := a.root.RemoveAll(to); err != nil {
			return err
		}
		there = false
	}
	switch {
	case entry.IsDir():
		return a.layDir(from, to, there)
	case entry.Type()&fs.ModeSymlink != 0:
		target, err := a.root.Readlink(from)
		if err != nil {
			return err
		}
		return errors.Join(a.root.Symlink(target, to), a.chown(from, to))
	}
	return a.root.Link(from, to)
}

func (a *assembler) layDir(from, to string, there bool) error {
	if !there {
		if err := a.root.Mkdir(to, 0o755); err != nil {
			return err
		}
	}
	info, err := a.root.Lstat(from)
	if err != nil {
		return err
	}
	if err := a.merge(from, to); err != nil {
		return err
	}
	return errors.Join(a.chown(from, to), a.root.Chmod(to, info.Mode()&(fs.ModePerm|fs.ModeSticky)))
}

// chown gives what is at to the owner of what is at from.
func (a *assembler) chown(from, to string) error {
	if !a.own {
		return nil
	}
	info, err := a.root.Lstat(from)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return core.Errorf(core.ErrInternal, "the owner of %s is not known", from)
	}
	return a.root.Lchown(to, int(stat.Uid), int(stat.Gid))
}

// mountFolders are where boxes have mounts.
func mountFolders() []string {
	return []string{
		"proc", "sys", "dev", "tmp", "etc", core.GuestWork[1:], core.GuestHome[1:],
		core.GuestBin[1:], core.GuestEnvironment[1:], core.GuestEnvironments[1:], core.GuestCache[1:],
	}
}

// mountPoints makes what boxes mount something on. Nothing can be made in a root file system that
// is read-only and shared. A link in the place of a folder goes: it would lead elsewhere.
func mountPoints(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only used
	for _, folder := range mountFolders() {
		for i := range folder + "/" {
			if i < len(folder) && folder[i] != '/' {
				continue
			}
			if err := folderAt(root, folder[:i]); err != nil {
				return err
			}
		}
	}
	const resolv = "etc/resolv.conf"
	if info, err := root.Lstat(resolv); err == nil && info.Mode().IsRegular() {
		return nil
	}
	return errors.Join(root.RemoveAll(resolv), root.WriteFile(resolv, nil, 0o644))
}

func folderAt(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	return root.Mkdir(name, 0o755)
}
