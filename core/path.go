package core

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a path in the workspace.
const (
	maxPath        = 1024
	maxPathElement = 255
	maxPathDepth   = 32
)

// CheckPath checks a path relative to the workspace: with slashes, without "." or ".." elements,
// empty elements or NUL, and of bounded size. Any other byte is allowed; a backslash is a plain
// character of a name.
func CheckPath(path string) error {
	refuse := func(why string) error {
		shown := path
		if len(shown) > 80 {
			shown = shown[:80] + "…"
		}
		return Errorf(ErrInvalid, "path %q %s", shown, why).
			WithHint("paths are relative to the workspace, such as data/in.csv")
	}
	elements := strings.Split(path, "/")
	switch {
	case path == "":
		return refuse("is empty")
	case strings.HasPrefix(path, "/"):
		return refuse("is absolute")
	case strings.IndexByte(path, 0) >= 0:
		return refuse("holds a NUL character")
	case len(path) > maxPath:
		return refuse("is too long")
	case len(elements) > maxPathDepth:
		return refuse("is too deep")
	}
	for _, element := range elements {
		switch {
		case element == "..":
			return refuse("leaves the workspace")
		case element == "" || element == ".":
			return refuse("has an empty element")
		case len(element) > maxPathElement:
			return refuse("has a name that is too long")
		}
	}
	return nil
}

// PrintablePath percent-encodes the bytes of a path that are not UTF-8.
func PrintablePath(path string) string {
	var b strings.Builder
	for rest := path; rest != ""; {
		char, width := utf8.DecodeRuneInString(rest)
		if char == utf8.RuneError && width == 1 {
			fmt.Fprintf(&b, "%%%02X", rest[0])
		} else {
			b.WriteString(rest[:width])
		}
		rest = rest[width:]
	}
	return b.String()
}
