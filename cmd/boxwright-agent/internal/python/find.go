// Package python keeps an interpreter waiting and runs programs in copies of it.
//
// The interpreter is the image's own. It gets its instructions by descriptor, never by a path or an
// argument that code could meddle with. The package starts programs and says when they end; it does not
// judge how, and it does not kill.
package python

import (
	"os"
	"path/filepath"
)

// Find returns the path of the image's Python, or "". It looks into the given folders, then into the
// usual ones.
func Find(folders []string) string {
	folders = append(append([]string{}, folders...), "/usr/local/bin", "/usr/bin", "/bin")
	for _, name := range []string{"python3", "python"} {
		for _, folder := range folders {
			path := filepath.Join(folder, name)
			if filepath.IsAbs(path) && executable(path) {
				return path
			}
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
