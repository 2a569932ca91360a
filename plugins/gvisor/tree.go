package gvisor

import (
	"io/fs"
	"os"
	"path/filepath"
)

// removeTree removes a folder with all that is in it, which a box has made: also what it took
// its own permissions away from. Links are not followed.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return gone(err)
	}
	defer func() { _ = root.Close() }() // it was only used
	open(root, filepath.Base(dir))
	return os.RemoveAll(dir)
}

// open lets the owner into a folder and all folders below it, as far as that is possible.
func open(root *os.Root, name string) {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	if info.Mode().Perm()&private != private {
		_ = root.Chmod(name, info.Mode().Perm()|private) // the removal tells
	}
	entries, _ := fs.ReadDir(root.FS(), filepath.ToSlash(name)) // the removal tells
	for _, entry := range entries {
		if entry.IsDir() {
			open(root, filepath.Join(name, entry.Name()))
		}
	}
}
