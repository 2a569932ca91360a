package workspace

import (
	"strings"

	"github.com/boxwright/boxwright/core"
)

// The longest path and element that Linux knows.
const (
	maxPath    = 4096
	maxElement = 255
)

// CheckPath tells whether path is a plain relative path. Backslashes, colons, spaces and bytes that are
// not UTF-8 are ordinary parts of a name.
func CheckPath(path string) error {
	switch {
	case path == "":
		return core.Errorf(core.ErrInvalid, "the path is empty")
	case len(path) > maxPath:
		return core.Errorf(core.ErrInvalid, "the path has %d bytes: at most %d are allowed", len(path), maxPath)
	case strings.ContainsRune(path, 0):
		return core.Errorf(core.ErrInvalid, "the path contains a NUL byte")
	case strings.HasPrefix(path, "/"):
		return core.Errorf(core.ErrInvalid, "the path %q is absolute", path).
			WithHint("paths are relative to %s", core.GuestWork)
	}
	for element := range strings.SplitSeq(path, "/") {
		if err := checkElement(path, element); err != nil {
			return err
		}
	}
	return nil
}

func checkElement(path, element string) error {
	switch {
	case element == "..":
		return core.Errorf(core.ErrInvalid, "the path %q leads out of the workspace", path).
			WithHint(`use a path below %s without ".."`, core.GuestWork)
	case element == "" || element == ".":
		return core.Errorf(core.ErrInvalid, "the path %q has an empty part", path)
	case len(element) > maxElement:
		return core.Errorf(core.ErrInvalid, "a name in the path has %d bytes: at most %d are allowed", len(element), maxElement)
	}
	return nil
}
