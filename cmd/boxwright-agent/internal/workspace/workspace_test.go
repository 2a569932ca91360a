package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/workspace"
	"github.com/boxwright/boxwright/core"
)

func open(t *testing.T) (*workspace.Workspace, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"-secret", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return w, dir
}

func write(w *workspace.Workspace, name, data string) error {
	part, err := w.Create(name)
	if err != nil {
		return err
	}
	defer part.Discard()
	if err := part.Write([]byte(data)); err != nil {
		return err
	}
	return part.Commit()
}

func read(w *workspace.Workspace, name string) (string, error) {
	data := make([]byte, 100)
	n, _, err := w.ReadAt(name, data, 0)
	return string(data[:n]), err
}

// TestReclaim: code that takes the workspace from itself finds it again, and its files are told.
func TestReclaim(t *testing.T) {
	w, dir := open(t)
	for mode, want := range map[os.FileMode]os.FileMode{
		0: 0o700, 0o044: 0o744, 0o400: 0o700, 0o100: 0o700, 0o500: 0o500, 0o755: 0o755, 0o777 | os.ModeSticky: 0o777 | os.ModeSticky,
		os.ModeSticky: 0o700 | os.ModeSticky,
	} {
		before := w.Snapshot()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte(mode.String()), 0o600), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		changes := w.Changes(before)
		if info, err := os.Stat(dir); err != nil || info.Mode()&^os.ModeDir != want {
			t.Errorf("%v is %v, %v; want %v", mode, info.Mode(), err, want)
		}
		if len(changes.Files) != 1 || len(changes.Warnings) > 0 {
			t.Errorf("after %v: %+v", mode, changes)
		}
	}
}

func TestOddNamesArePlainNames(t *testing.T) {
	w, dir := open(t)
	for _, name := range []string{
		`C:\data\my file.txt`, "résumé 漢字 #1?.csv", "a'; touch pwn; '", "sub/d/a.csv", "\xff\xfe", "-rf", "line\nbreak", strings.Repeat("n", 255),
	} {
		if err := write(w, name, "data of "+name); err != nil {
			t.Errorf("write %q: %v", name, err)
			continue
		}
		if got, err := read(w, name); got != ("data of " + name)[:min(100, len(name)+8)] || err != nil {
			t.Errorf("read %q: %q, %v", name, got, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestHostilePathsAreRefused(t *testing.T) {
	w, dir := open(t)
	for _, name := range []string{
		"", ".", "..", "/etc/passwd", "../work-secret", "a/../../work-secret", "a//b", "a/", "./a", "a\x00b",
		strings.Repeat("n", 256), strings.Repeat("n/", 2100), "sub/..",
	} {
		if err := write(w, name, "x"); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("write %.20q: %v", name, err)
		}
		if _, err := read(w, name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("read %.20q: %v", name, err)
		}
	}
	if data, _ := os.ReadFile(dir + "-secret"); string(data) != "secret" {
		t.Errorf("the file outside is now %q", data)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	w, dir := open(t)
	for name, target := range map[string]string{
		"out": "../work-secret", "abs": dir + "-secret", "up": "..", "loop": "loop", "dangling": "nothing", "in": "plain", "proc": "/proc/self/root",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"out", "abs", "up", "up/work-secret", "loop", "loop/x", "dangling", "in", "proc/etc/passwd"} {
		if got, err := read(w, name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("read %q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"up/x", "proc/tmp/x", "loop/x", "dangling/x"} {
		if err := write(w, name, "x"); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("write %q: %v", name, err)
		}
	}
	if err := write(w, "out", "replaced"); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(dir + "-secret"); string(data) != "secret" {
		t.Errorf("the file outside is now %q", data)
	}
	if got, err := read(w, "out"); got != "replaced" || err != nil {
		t.Errorf("the link was not replaced: %q, %v", got, err)
	}
}

func TestSpecialFilesAreNotOpened(t *testing.T) {
	w, dir := open(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "folder"} {
		if _, err := read(w, name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("read %q: %v", name, err)
		}
	}
	if err := write(w, "folder", "x"); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("write over a folder: %v", err)
	}
	if _, err := read(w, "nothing"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("read nothing: %v", err)
	}
}

// TestListing: every odd name as it is, links and pipes as what they are, and nothing outside.
func TestListing(t *testing.T) {
	w, dir := open(t)
	for _, name := range []string{"it's.txt", "line\nbreak", "\xff\xfe", strings.Repeat("n", 255), "sub/d/a"} {
		if err := write(w, name, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc", filepath.Join(dir, "out")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	flat := []string{"it's.txt file 8", "line\nbreak file 10", strings.Repeat("n", 255) + " file 255", "out link 0", "pipe other 0", "sub folder 0", "\xff\xfe file 2"}
	for _, c := range []struct {
		dir       string
		recursive bool
		want      []string
	}{
		{"", false, flat},
		{"", true, slices.Insert(slices.Clone(flat), 6, "sub/d folder 0", "sub/d/a file 7")},
		{"sub", false, []string{"sub/d folder 0"}},
		{"sub/d", true, []string{"sub/d/a file 7"}},
	} {
		files, cut, err := w.List(c.dir, c.recursive)
		var got []string
		for _, f := range files {
			got = append(got, fmt.Sprintf("%s %s %d", f.Path, f.Kind, f.Size))
			if info, err := os.Lstat(filepath.Join(dir, f.Path)); err != nil || !info.ModTime().Equal(f.Modified) {
				t.Errorf("%q: changed at %s, %v", f.Path, f.Modified, err)
			}
		}
		if err != nil || cut || !slices.Equal(got, c.want) {
			t.Errorf("%q, %v: got %q, %v, %v", c.dir, c.recursive, got, cut, err)
		}
	}
	for name, kind := range map[string]core.Kind{"none": core.ErrNotFound, "out": core.ErrInvalid, "pipe": core.ErrInvalid, "it's.txt": core.ErrInvalid, "..": core.ErrInvalid, "/etc": core.ErrInvalid, "a\x00": core.ErrInvalid} {
		if _, _, err := w.List(name, true); core.KindOf(err) != kind {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatIsNotCommittedLeavesNothing(t *testing.T) {
	w, dir := open(t)
	part, err := w.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := part.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if changes := w.Changes(w.Snapshot()); len(changes.Files) != 0 {
		t.Errorf("a half file is told of: %v", changes.Files)
	}
	part.Discard()
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestChanges(t *testing.T) {
	w, dir := open(t)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"same", "touched", "removed", "rewritten", "sub/same"} {
		do(write(w, name, "before"))
	}
	before := w.Snapshot()
	do(write(w, "from-host", "written during the run"))
	stat, err := os.Stat(at("rewritten"))
	do(err)
	do(os.WriteFile(at("rewritten"), []byte("BEFORE"), 0o600)) // same size
	do(os.Chtimes(at("rewritten"), stat.ModTime(), stat.ModTime()))
	do(os.WriteFile(at("empty"), nil, 0o600))
	do(os.Remove(at("removed")))
	do(os.MkdirAll(at("sub/d"), 0o700))
	do(os.WriteFile(at("sub/d/\xff.csv"), []byte("1"), 0o600))
	do(os.Symlink("/etc/passwd", at("link")))
	do(os.Symlink("loop", at("loop")))
	do(syscall.Mkfifo(at("fifo"), 0o600))

	changes := w.Changes(before)
	var paths []string
	for _, f := range changes.Files {
		paths = append(paths, f.Path)
	}
	if want := []string{"empty", "rewritten", "sub/d/\xff.csv"}; !slices.Equal(paths, want) {
		t.Errorf("changed %q, want %q", paths, want)
	}
	if want := []string{
		"fifo is a fifo and is not returned",
		"link is a symbolic link and is not returned",
		"loop is a symbolic link and is not returned",
	}; !slices.Equal(changes.Warnings, want) {
		t.Errorf("warnings %q, want %q", changes.Warnings, want)
	}
	if again := w.Changes(w.Snapshot()); len(again.Files)+len(again.Warnings) != 0 {
		t.Errorf("without a change: %v", again)
	}
}

// TestTheHostsFilesAreNotTheRuns, also when they come at the moment in which a run begins.
func TestTheHostsFilesAreNotTheRuns(t *testing.T) {
	w, _ := open(t)
	for i := range 200 {
		written := make(chan error)
		go func() { written <- write(w, fmt.Sprintf("d%d/f", i), "x") }()
		before := w.Snapshot()
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if changes := w.Changes(before); len(changes.Files) > 0 {
			t.Fatalf("the run is said to have written %v", changes.Files)
		}
	}
}

func TestManyFilesAreBounded(t *testing.T) {
	w, dir := open(t)
	before := w.Snapshot()
	deep := dir
	for i := range 1100 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("x", i%50)+string(rune('0'+i%10))+strings.Repeat("y", i/50)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 70 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	changes := w.Changes(before)
	if len(changes.Files) != 1000 {
		t.Errorf("%d files", len(changes.Files))
	}
	text := strings.Join(changes.Warnings, "\n")
	if !strings.Contains(text, "100 more changed files") || !strings.Contains(text, "64 levels") {
		t.Errorf("warnings: %s", text)
	}
}

func TestOutside(t *testing.T) {
	dir := t.TempDir()
	touch := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch("old")
	watch := workspace.Watch(dir)
	if got := watch.Warning(); got != "" {
		t.Errorf("nothing was written: %s", got)
	}
	for _, name := range []string{".hidden", ".dir/x", "b.csv", "d/e", "d/f/too-deep"} {
		touch(name)
	}
	want := "written outside the workspace and not returned: " + dir + "/b.csv, " + dir + "/d/e; write below /work to get files back"
	if got := watch.Warning(); len(dir) < 80 && got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
