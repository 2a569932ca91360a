package keep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// kept makes a copy of a package with two modules, one of which has its bytecode already.
func kept(t *testing.T) (target string) {
	t.Helper()
	source, target := tree(t, func(in func(string) string) {
		must(t, os.MkdirAll(in("pkg/sub/__pycache__"), 0o700))
		write(t, in("pkg/a.py"), "a", 0o600)
		write(t, in("pkg/sub/b.py"), "b", 0o600)
		write(t, in("pkg/sub/__pycache__/b.pyc"), "old", 0o600)
	})
	_, err := Copy(source, target, roomy)
	must(t, err)
	return target
}

func TestAddBytecode(t *testing.T) {
	target := kept(t)
	source := t.TempDir()
	for _, name := range []string{"__pycache__", "pkg/__pycache__", "pkg/sub/__pycache__"} {
		must(t, os.MkdirAll(filepath.Join(source, name), 0o700))
		write(t, filepath.Join(source, name, "x.pyc"), "new", 0o600)
	}
	left := filepath.Join(target, "pkg", bytecodeFolder+unfinished) // by a courier that was killed
	must(t, os.Chmod(filepath.Dir(left), 0o700))
	must(t, os.MkdirAll(filepath.Join(left, "half"), 0o500))
	for range 2 { // another server may do the same
		_, err := AddBytecode(source, target, roomy)
		must(t, err)
	}
	want := []string{
		"dr-xr-xr-x .", "dr-xr-xr-x __pycache__", "-r--r--r-- __pycache__/x.pyc = new", "dr-xr-xr-x pkg",
		"dr-xr-xr-x pkg/__pycache__", "-r--r--r-- pkg/__pycache__/x.pyc = new", "-r--r--r-- pkg/a.py = a", "dr-xr-xr-x pkg/sub",
		"dr-xr-xr-x pkg/sub/__pycache__", "-r--r--r-- pkg/sub/__pycache__/b.pyc = old", "-r--r--r-- pkg/sub/b.py = b",
	}
	if got := all(t, target); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the environment is %q", got)
	}
}

// TestBytecodeIsAllThatIsAdded: whatever else a compiler leaves is refused, and the environment is as it was.
func TestBytecodeIsAllThatIsAdded(t *testing.T) {
	for name, make := range map[string]func(in string) error{
		"a module":            func(in string) error { return os.WriteFile(in+"/pkg/a.py", []byte("evil"), 0o600) },
		"a folder":            func(in string) error { return os.Mkdir(in+"/pkg/more", 0o700) },
		"a link":              func(in string) error { return os.Symlink("/etc", in+"/pkg/__pycache__") },
		"a link for a folder": func(in string) error { return os.Symlink("pkg", in+"/sub") },
		"a link in bytecode": func(in string) error {
			return within(in, func(at string) error { return os.Symlink("/etc/passwd", at+"/l") })
		},
		"a device in bytecode": func(in string) error { return within(in, func(at string) error { return unix.Mkfifo(at+"/p", 0o600) }) },
		"too much": func(in string) error {
			return within(in, func(at string) error { return os.WriteFile(at+"/x.pyc", []byte(strings.Repeat("x", 101)), 0o600) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := kept(t)
			before := all(t, target)
			source := t.TempDir()
			must(t, os.Mkdir(source+"/pkg", 0o700))
			must(t, make(source))
			added, err := AddBytecode(source, target, Limits{Bytes: 100, Entries: 100})
			if core.KindOf(err) != core.ErrDependency || added.Entries == 0 {
				t.Errorf("got %+v, %v", added, err)
			}
			if after := all(t, target); strings.Join(after, "|") != strings.Join(before, "|") {
				t.Errorf("the environment is %q", after)
			}
		})
	}
}

func within(in string, do func(at string) error) error {
	at := in + "/pkg/" + bytecodeFolder
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	return do(at)
}
