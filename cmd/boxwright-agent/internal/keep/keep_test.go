package keep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

var roomy = Limits{Bytes: 1 << 20, Entries: 1000}

// tree makes a source, and says where its copy is to be.
func tree(t *testing.T, make func(at func(name string) string)) (source, target string) {
	t.Helper()
	source, zone := t.TempDir(), t.TempDir()
	make(func(name string) string { return filepath.Join(source, name) })
	target = filepath.Join(zone, core.ZoneFolder, "abc")
	t.Cleanup(func() { // what is read-only is not removed with the test's folders
		_ = Drop(target)
		_ = os.Chmod(filepath.Dir(target), 0o700)
	})
	return source, target
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, content string, mode fs.FileMode) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(content), mode))
	must(t, os.Chmod(name, mode))
}

// names are those in the zone of a copy, which shows them to nobody but root.
func names(t *testing.T, target string) (names []string) {
	t.Helper()
	zone := filepath.Dir(target)
	must(t, os.Chmod(zone, 0o700))
	entries, err := os.ReadDir(zone)
	must(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// all are the entries of a copy, as "mode name = content" or "-> link".
func all(t *testing.T, tree string) (entries []string) {
	t.Helper()
	must(t, filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(tree, path)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String() + " " + name
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " = " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			link, _ := os.Readlink(path)
			text = "link " + name + " -> " + link
		}
		entries = append(entries, text)
		return nil
	}))
	return entries
}

func TestCopy(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	source, target := tree(t, func(in func(string) string) {
		must(t, os.MkdirAll(in("pkg/sub"), 0o700))
		write(t, in("pkg/mod.py"), "code", 0o600)
		must(t, os.Chtimes(in("pkg/mod.py"), at, at))
		write(t, in("pkg/tool"), "run", 0o777|fs.ModeSetuid|fs.ModeSetgid)
		write(t, in("a\nname \xff"), "", 0o644)
		must(t, os.Link(in("pkg/mod.py"), in("pkg/sub/hard")))
		must(t, os.Symlink("../mod.py", in("pkg/sub/soft")))
		must(t, os.Symlink("nowhere", in("dangling")))
	})
	kept, err := Copy(source, target, roomy)
	if err != nil || kept != (Kept{Bytes: 11, Entries: 8}) {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	want := []string{
		"dr-xr-xr-x .", "-r--r--r-- a\nname \xff = ", "link dangling -> nowhere", "dr-xr-xr-x pkg", "-r--r--r-- pkg/mod.py = code",
		"dr-xr-xr-x pkg/sub", "-r--r--r-- pkg/sub/hard = code", "link pkg/sub/soft -> ../mod.py", "-r-xr-xr-x pkg/tool = run",
	}
	if got := all(t, target); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the copy is %q", got)
	}
	if info, err := os.Stat(filepath.Join(target, "pkg/mod.py")); err != nil || !info.ModTime().Equal(at) {
		t.Errorf("a file's time was not kept: %v, %v", info.ModTime(), err)
	}
	if info, err := os.Stat(filepath.Dir(target)); err != nil || info.Mode().Perm() != core.ZoneMode {
		t.Errorf("the zone's mode is %v, %v", info.Mode(), err)
	}
}

// TestRefused: none of these trees is kept, and nothing is left of them.
func TestRefused(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth)
	for name, c := range map[string]struct {
		make func(in func(string) string) error
		want string
	}{
		"a link to the root":     {func(in func(string) string) error { return os.Symlink("/etc/passwd", in("l")) }, `"l", a link that leads out`},
		"a link upwards":         {func(in func(string) string) error { return os.Symlink("../x", in("l")) }, `"l", a link that leads out`},
		"a link that comes back": {func(in func(string) string) error { return os.Symlink("a/../../x", in("l")) }, `"l", a link that leads out`},
		"a long link":            {func(in func(string) string) error { return os.Symlink(strings.Repeat("x/", 1500), in("l")) }, `"l", a link that leads out`},
		"a pipe":                 {func(in func(string) string) error { return unix.Mkfifo(in("p"), 0o666) }, `"p", which is neither`},
		"a device":               {func(in func(string) string) error { return unix.Mknod(in("n"), unix.S_IFCHR|0o666, 1<<8|3) }, `"n", which is neither`},
		"a socket":               {func(in func(string) string) error { return unix.Mknod(in("s"), unix.S_IFSOCK|0o666, 0) }, `"s", which is neither`},
		"a name to mind":         {func(in func(string) string) error { return unix.Mkfifo(in("\x1b]\n"), 0o666) }, `"\x1b]\n", which is neither`},
		"a large file":           {func(in func(string) string) error { return os.WriteFile(in("f"), make([]byte, 101), 0o600) }, "more than 100B"},
		"a file of nothing": {func(in func(string) string) error {
			return errors.Join(os.WriteFile(in("f"), nil, 0o600), os.Truncate(in("f"), 1<<40))
		}, "more than 100B"},
		"files that are too many": {func(in func(string) string) error { return os.MkdirAll(in("1/2/3/4/5/6/7/8/9/10/11"), 0o700) }, "more than 10 files"},
		"folders too deep":        {func(in func(string) string) error { return os.MkdirAll(in(deep+"x"), 0o700) }, "folders that are too deep"},
		"long names": {func(in func(string) string) error {
			return os.MkdirAll(in(strings.Repeat(strings.Repeat("n", 250)+"/", 9)), 0o700)
		}, "folders that are too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			source, target := tree(t, func(in func(string) string) { must(t, c.make(in)) })
			limits := Limits{Bytes: 100, Entries: 10}
			if strings.Contains(c.want, "deep") {
				limits.Entries = 1000
			}
			_, err := Copy(source, target, limits)
			if core.KindOf(err) != core.ErrDependency || !strings.Contains(err.Error(), "the packages are not kept: they hold "+c.want) {
				t.Errorf("got %v", err)
			}
			if left := names(t, target); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// TestHalfOfAnother: what a crash left is not added to, and what is there is not replaced.
func TestHalfOfAnother(t *testing.T) {
	source, target := tree(t, func(in func(string) string) { write(t, in("f"), "new", 0o600) })
	must(t, os.MkdirAll(target+unfinished+"/old", 0o700))
	must(t, os.Chmod(target+unfinished, 0o500))
	_, err := Copy(source, target, roomy)
	if got := all(t, target); err != nil || len(got) != 2 || got[1] != "-r--r--r-- f = new" {
		t.Errorf("the copy is %q, %v", got, err)
	}
	if _, err := Copy(source, target, roomy); core.KindOf(err) != core.ErrInternal {
		t.Errorf("a second copy: %v", err)
	}
	if _, err := Copy(target+"x", target+"y", roomy); core.KindOf(err) != core.ErrInternal {
		t.Errorf("a source that is not there: %v", err)
	}
}

func TestSourceIsALink(t *testing.T) {
	source, target := tree(t, func(in func(string) string) { must(t, os.Symlink("/etc", in("l"))) })
	if _, err := Copy(filepath.Join(source, "l"), target, roomy); err == nil {
		t.Errorf("it was followed: %q", all(t, target))
	}
}

// TestDrop removes what is read-only and what is not whole, and follows no links.
func TestDrop(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "f"), "stays", 0o600)
	source, target := tree(t, func(in func(string) string) {
		must(t, os.MkdirAll(in("a/b"), 0o700))
		write(t, in("a/b/f"), "x", 0o600)
	})
	_, err := Copy(source, target, roomy)
	must(t, err)
	must(t, os.Mkdir(target+unfinished, 0o700))
	must(t, os.Symlink(outside, filepath.Join(target+unfinished, "l")))
	must(t, Drop(target, target+"z"))
	if left := names(t, target); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if content, err := os.ReadFile(filepath.Join(outside, "f")); string(content) != "stays" {
		t.Errorf("what a link leads to is %q, %v", content, err)
	}
}

// FuzzLink: what is taken for a link within the tree is one, whatever else there is in it.
func FuzzLink(f *testing.F) {
	for _, seed := range []string{"x", "../x", "../../x", "a/../x", "a/../../../x", "./a/b", "//x", "..", ".", "a//b/", "up/x", "up/../../.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, link string) {
		const depth = 2
		if strings.ContainsRune(link, 0) || len(link) > 200 || !staysWithin(link, depth) {
			return
		}
		root := filepath.Join(t.TempDir(), "tree")
		must(t, os.MkdirAll(filepath.Join(root, "a/b"), 0o700))
		must(t, os.Symlink("..", filepath.Join(root, "a/up"))) // itself within
		at := filepath.Join(root, "a/b/link")
		if os.Symlink(link, at) != nil {
			return
		}
		resolved, err := filepath.EvalSymlinks(at)
		root, _ = filepath.EvalSymlinks(root)
		if err == nil && resolved != root && !strings.HasPrefix(resolved, root+"/") {
			t.Errorf("%q leads to %s", link, resolved)
		}
	})
}
