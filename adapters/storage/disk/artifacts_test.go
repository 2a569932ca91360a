package disk_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/artifact/artifacttest"
)

func open(t *testing.T, dir string) *disk.Artifacts {
	t.Helper()
	return openSmall(t, dir, 0)
}

func openSmall(t *testing.T, dir string, maxBytes int64) *disk.Artifacts {
	t.Helper()
	s, err := disk.NewArtifacts(dir, disk.ArtifactOptions{MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t *testing.T, s artifact.Store, run, name, content string) core.Artifact {
	t.Helper()
	w, err := s.Create(t.Context(), run, name)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	a, err := w.Commit("")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestArtifacts(t *testing.T) {
	artifacttest.Run(t, artifacttest.Harness{
		New:   func(t *testing.T) artifact.Store { return open(t, filepath.Join(t.TempDir(), "new", "files")) },
		Small: func(t *testing.T) artifact.Store { return openSmall(t, t.TempDir(), 100) },
	})
}

func TestArtifactsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	a := put(t, open(t, dir), "run", "d/a b.txt", "hello")
	f, got, err := open(t, dir).Open(t.Context(), "run", "d/a b.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if content, err := io.ReadAll(f); string(content) != "hello" || err != nil || got != a {
		t.Errorf("got %q, %v, %+v, want %+v", content, err, got, a)
	}
}

func TestLocationIsAFileForPeople(t *testing.T) {
	dir := t.TempDir()
	a := put(t, open(t, dir), "run", "d/plot.png", "x")
	if want := filepath.Join(dir, "run", "files", "d", "plot.png"); a.Location != want {
		t.Errorf("location is %s, want %s", a.Location, want)
	}
	if content, err := os.ReadFile(a.Location); string(content) != "x" || err != nil {
		t.Errorf("it holds %q, %v", content, err)
	}
	err := filepath.WalkDir(filepath.Join(dir, "run"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEditedAndDeletedByHand(t *testing.T) {
	s := open(t, t.TempDir())
	edited, deleted := put(t, s, "run", "edited", "12"), put(t, s, "run", "deleted", "12")
	if err := os.WriteFile(edited.Location, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(deleted.Location); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context(), "run")
	if err != nil || len(list) != 1 || list[0].Size != 5 || list[0].SHA256 != "" {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, _, err := s.Open(t.Context(), "run", "deleted"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// A link that somebody planted must never be followed, for reading, writing or removing.
func TestPlantedLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir)
	plantLinks(t, s, dir, outside)
	for _, at := range [][2]string{{"run", "a"}, {"run", "out/secret"}, {"run", "sibling/a"}, {"twin", "a"}} {
		if f, _, err := s.Open(t.Context(), at[0], at[1]); err == nil {
			f.Close()
			t.Errorf("%q was opened", at)
		}
	}
	for _, at := range [][2]string{{"run", "out/new"}, {"run", "sibling/new"}, {"linked", "new"}, {"twin", "new"}} {
		w, err := s.Create(t.Context(), at[0], at[1])
		if err == nil {
			_, err = w.Commit("")
			w.Abort()
		}
		if err == nil {
			t.Errorf("%q was written", at)
		}
	}
	for _, run := range []string{"run", "linked", "twin"} {
		if err := s.Remove(t.Context(), run); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(outside, "*")); len(left) != 1 {
		t.Errorf("outside is %v", left)
	}
	if f, _, err := s.Open(t.Context(), "victim", "a"); err != nil {
		t.Errorf("the other run lost its file: %v", err)
	} else {
		f.Close()
	}
}

// plantLinks puts links in place of a run's file, of folders in it, and of runs.
func plantLinks(t *testing.T, s *disk.Artifacts, dir, outside string) {
	t.Helper()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "victim", "a", "victim's")
	a := put(t, s, "run", "a", "x")
	files := filepath.Dir(a.Location)
	if err := os.Remove(a.Location); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		filepath.Join(files, "a"):       secret,
		filepath.Join(files, "out"):     outside,
		filepath.Join(files, "sibling"): "../../victim/files",
		filepath.Join(dir, "linked"):    outside,
		filepath.Join(dir, "twin"):      "victim",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
}

// The operator may point files.dir at a folder with other things in it.
func TestForeignFoldersStay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"project/files/a.txt", "project/meta/x", "a.txt", ".git/config"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	put(t, s, "run", "a", "x")
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), 1); n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if err := s.Remove(t.Context(), "project"); err != nil {
		t.Error(err)
	}
	if _, err := s.Create(t.Context(), "project", "x"); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	for _, name := range []string{"project/files/a.txt", "project/meta/x", "a.txt", ".git/config"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A crash leaves half-written files: never listed, removed by a sweep once they are old.
func TestRemainsOfACrash(t *testing.T) {
	dir := t.TempDir()
	crashed := open(t, dir)
	w, err := crashed.Create(t.Context(), "run", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "half"); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir) // another process: it knows nothing of the writer
	if list, err := s.List(t.Context(), "run"); len(list) != 0 || err != nil {
		t.Errorf("listed: %v, %v", list, err)
	}
	sweep := func() []string {
		t.Helper()
		if _, err := s.Sweep(t.Context(), time.Now().Add(-time.Hour), 0); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "run", ".boxwright", "open", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	left := sweep()
	if len(left) != 1 {
		t.Fatalf("a file that may still be written is gone: %v", left)
	}
	makeOld(t, left[0])
	makeOld(t, filepath.Join(dir, "run"))
	if left := sweep(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "run")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the run's folder is still there: %v", err)
	}
}

// makeOld makes a file older than any run.
func makeOld(t *testing.T, name string) {
	t.Helper()
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
}

// A commit writes the record first and moves the file last. A sweep of another server between the
// two takes nothing away.
func TestSweepDuringACommit(t *testing.T) {
	dir := t.TempDir()
	a := put(t, open(t, dir), "run", "a", "x")
	aside := filepath.Join(dir, "aside")
	if err := os.Rename(a.Location, aside); err != nil { // as it is just before the move
		t.Fatal(err)
	}
	other := open(t, dir)
	sweep := func() {
		t.Helper()
		if _, err := other.Sweep(t.Context(), time.Now().Add(-time.Hour), 0); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if err := os.Rename(aside, a.Location); err != nil {
		t.Fatal(err)
	}
	if list, err := other.List(t.Context(), "run"); len(list) != 1 || err != nil {
		t.Errorf("the record is gone: %v, %v", list, err)
	}
	if err := os.Remove(a.Location); err != nil {
		t.Fatal(err)
	}
	records, _ := filepath.Glob(filepath.Join(dir, "run", ".boxwright", "known", "*"))
	if len(records) != 1 {
		t.Fatalf("records: %v", records)
	}
	makeOld(t, records[0])
	makeOld(t, filepath.Join(dir, "run"))
	sweep()
	if _, err := os.Stat(filepath.Join(dir, "run")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old record without its file stays: %v", err)
	}
}

// What was there before this server, and what another one wrote, counts too.
func TestRoomIsOfAllServers(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), "before", "a", strings.Repeat("x", 60))
	s := openSmall(t, dir, 100)
	put(t, s, "mine", "a", strings.Repeat("x", 50))
	put(t, open(t, dir), "theirs", "a", strings.Repeat("x", 60))
	if _, err := s.Sweep(t.Context(), time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	put(t, s, "last", "a", strings.Repeat("x", 40))
	for run, want := range map[string]int{"before": 0, "mine": 0, "theirs": 1, "last": 1} {
		if list, err := s.List(t.Context(), run); len(list) != want || err != nil {
			t.Errorf("run %s has %v, %v, want %d files", run, list, err, want)
		}
	}
}

// A run that another server writes is not old, whatever was measured before.
func TestRoomSparesWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	s := openSmall(t, dir, 100)
	put(t, s, "busy", "a", strings.Repeat("x", 50))
	put(t, s, "other", "a", strings.Repeat("x", 10))
	if _, err := s.Sweep(t.Context(), time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	w, err := open(t, dir).Create(t.Context(), "busy", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	put(t, s, "last", "a", strings.Repeat("x", 45))
	for run, want := range map[string]int{"busy": 1, "other": 0, "last": 1} {
		if list, err := s.List(t.Context(), run); len(list) != want || err != nil {
			t.Errorf("run %s has %v, %v, want %d files", run, list, err, want)
		}
	}
}

func TestAbortLeavesNoFolder(t *testing.T) {
	dir := t.TempDir()
	w, err := open(t, dir).Create(t.Context(), "run", "d/a")
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestBrokenRecords(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "run", "good", "x")
	put(t, s, "run", "bad", "x")
	records, _ := filepath.Glob(filepath.Join(dir, "run", ".boxwright", "known", "*"))
	for _, record := range records {
		if text, _ := os.ReadFile(record); strings.Contains(string(text), `"bad"`) {
			if err := os.WriteFile(record, []byte(`{"name":"../../../etc/passwd"}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := s.List(t.Context(), "run")
	if err != nil || len(list) != 1 || list[0].Name != "good" {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, _, err := s.Open(t.Context(), "run", "bad"); err == nil {
		t.Error("a file with a broken record was opened")
	}
}

func TestFileAndFolderOfOneName(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, "run", "a", "x")
	put(t, s, "run", "d/b", "x")
	for _, name := range []string{"a/b", "d"} {
		w, err := s.Create(t.Context(), "run", name)
		if err == nil {
			_, err = w.Commit("")
			w.Abort()
		}
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if list, _ := s.List(t.Context(), "run"); len(list) != 2 {
		t.Errorf("listed: %v", list)
	}
}

func TestFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.NewArtifacts(filepath.Join(file, "x"), disk.ArtifactOptions{}); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func FuzzNames(f *testing.F) {
	f.Add("../x")
	f.Add("a/./b")
	f.Add("ü\n")
	dir := f.TempDir()
	s, err := disk.NewArtifacts(filepath.Join(dir, "files"), disk.ArtifactOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if w, err := s.Create(t.Context(), "run", name); err == nil {
			if a, err := w.Commit(""); err == nil && !strings.HasPrefix(a.Location, filepath.Join(dir, "files", "run", "files")+"/") {
				t.Errorf("%q was written to %s", name, a.Location)
			}
			w.Abort()
		}
		if outside, _ := filepath.Glob(filepath.Join(dir, "*")); len(outside) != 1 {
			t.Errorf("%q left %v", name, outside)
		}
		if err := s.Remove(t.Context(), "run"); err != nil {
			t.Error(err)
		}
	})
}
