package folders

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestStore(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "boxes")}
	var got string
	if s.Load("a", &got) || s.Has("a") || s.Names() != nil {
		t.Error("an empty store has something")
	}
	if err := s.Save("a", "first", "inside"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.Path("a", "inside")); err != nil || !info.IsDir() {
		t.Errorf("the folder inside: %v", err)
	}
	if err := s.Save("a", "second"); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("a name that is taken: %v", err)
	}
	if !s.Load("a", &got) || got != "first" {
		t.Errorf("it holds %q", got)
	}
	os.MkdirAll(s.Path("b"), 0o700)
	os.MkdirAll(s.Path(unfinished+"x"), 0o700)
	if got := s.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names: %q", got)
	}
	if s.Load("b", &got) || !s.Has("b") {
		t.Error("a folder without a record")
	}
	for range 2 {
		if err := s.Remove("a"); err != nil || s.Has("a") {
			t.Errorf("removing: %v", err)
		}
	}
}

// TestRemoveWhatIsLocked: code in a box may leave folders without rights for their owner.
func TestRemoveWhatIsLocked(t *testing.T) {
	s := Store{t.TempDir()}
	if err := s.Save("a", "x", "data"); err != nil {
		t.Fatal(err)
	}
	inner := s.Path("a", "data", "deep")
	os.MkdirAll(filepath.Join(inner, "deeper"), 0o700)
	outside := t.TempDir()
	os.Symlink(outside, filepath.Join(inner, "link"))
	os.Chmod(inner, 0)
	os.Chmod(outside, 0o500)
	unlock(s.Path("a"))
	if info, err := os.Stat(inner); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it is still locked: %v, %v", info, err)
	}
	if info, _ := os.Stat(outside); info.Mode().Perm() != 0o500 {
		t.Error("a link was followed")
	}
	if err := s.Remove("a"); err != nil {
		t.Error(err)
	}
}

func TestVolumes(t *testing.T) {
	used := false
	v := Volumes{Store{t.TempDir()}, func(string) bool { return used }}
	want := core.Volume{Name: "v", Labels: core.Labels{Instance: "i", Tenant: "t"}}
	first, err := v.Ensure(want)
	if err != nil || first.Labels != want.Labels || first.Created.IsZero() {
		t.Fatalf("made: %+v, %v", first, err)
	}
	again, err := v.Ensure(core.Volume{Name: "v", Labels: core.Labels{Instance: "j"}})
	if err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := os.Stat(v.Data("v")); err != nil {
		t.Error(err)
	}
	if got := v.Of("i"); len(got) != 1 || got[0] != first || v.Of("j") != nil {
		t.Errorf("listed: %+v", got)
	}
	for err, kind := range map[error]core.Kind{
		checkMounts([]core.Mount{{Volume: "v"}}, v.Store):                "",
		checkMounts([]core.Mount{{Volume: "v"}, {Volume: "w"}}, v.Store): core.ErrNotFound,
		v.Remove("../x"):    core.ErrInvalid,
		v.Remove("unknown"): "",
	} {
		if core.KindOf(err) != kind {
			t.Errorf("got %v, want %q", err, string(kind))
		}
	}
	used = true
	if err := v.Remove("v"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("one in use: %v", err)
	}
	used = false
	if err := v.Remove("v"); err != nil || v.Store.Has("v") {
		t.Errorf("removing: %v", err)
	}
}

func TestForeignVolumeStays(t *testing.T) {
	v := Volumes{Store: Store{t.TempDir()}}
	os.Mkdir(v.Store.Path("foreign"), 0o700)
	if _, err := v.Ensure(core.Volume{Name: "foreign"}); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("taking it over: %v", err)
	}
	if err := v.Remove("foreign"); core.KindOf(err) != core.ErrNotFound || !v.Store.Has("foreign") {
		t.Errorf("removing it: %v", err)
	}
}

func TestBoxes(t *testing.T) {
	boxes, volumes := Open(t.TempDir())
	if _, err := volumes.Ensure(core.Volume{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	spec := core.BoxSpec{Image: "x", Labels: core.Labels{Instance: "i"}, Mounts: []core.Mount{{Volume: "v", Path: "/v"}}}
	box, err := boxes.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	found, err := boxes.Find(box.ID)
	if err != nil || !reflect.DeepEqual(found, box) {
		t.Errorf("found %+v, %v; made %+v", found, err, box)
	}
	if got := box.Describe(true); got.State != core.BoxRunning || got.ID != box.ID || got.Labels != spec.Labels || got.Image != "x" || got.Created.IsZero() {
		t.Errorf("described as %+v", got)
	}
	if box.Describe(false).State != core.BoxStopped {
		t.Error("a stopped box is not described as one")
	}
	if len(boxes.Of("i")) != 1 || len(boxes.Of("j")) != 0 {
		t.Error("the boxes of an instance")
	}
	for _, id := range []string{"", "..", "x/../" + box.ID, box.ID[1:], "abcdefghijklmnopqrstuvwxyz"} {
		if _, err := boxes.Find(id); core.KindOf(err) != core.ErrNotFound {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if err := volumes.Remove("v"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("a volume that the box mounts: %v", err)
	}
	if err := boxes.Store.Remove(box.ID); err != nil {
		t.Fatal(err)
	}
	if err := volumes.Remove("v"); err != nil {
		t.Errorf("without the box: %v", err)
	}
}

// TestWhatTheDeadLeft goes with the next that saves or removes something.
func TestWhatTheDeadLeft(t *testing.T) {
	s := Store{t.TempDir()}
	os.MkdirAll(s.Path(unfinished+"x", "inside"), 0o500)
	os.MkdirAll(s.Path(removed+"x", "inside"), 0o500)
	if err := s.Save("a", "x"); err != nil {
		t.Fatal(err)
	}
	if s.Has(unfinished + "x") {
		t.Error("what was being made is still there")
	}
	if err := s.Remove("unknown"); err != nil || s.Has(removed+"x") {
		t.Errorf("what was being removed is still there: %v", err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("names: %q", got)
	}
}

// TestABoxOrItsVolume: of a box that mounts a volume and a removal of it at the same time, one fails.
func TestABoxOrItsVolume(t *testing.T) {
	dir := t.TempDir()
	boxes, volumes := Open(dir)
	if _, err := volumes.Ensure(core.Volume{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	looked, made := make(chan struct{}), make(chan error, 1)
	volumes.InUse = func(name string) bool {
		used := boxes.Mount(name)
		close(looked)
		select { // a Make now, between the look and the removal, would mount what is gone
		case err := <-made:
			t.Errorf("it was not kept waiting: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		return used
	}
	go func() {
		<-looked
		other, _ := Open(dir)
		_, err := other.Make(core.BoxSpec{Mounts: []core.Mount{{Volume: "v", Path: "/v"}}})
		made <- err
	}()
	if err := volumes.Remove("v"); err != nil {
		t.Error(err)
	}
	if err := <-made; core.KindOf(err) != core.ErrNotFound {
		t.Errorf("a box with a volume that is gone: %v", err)
	}
	if all := boxes.Of(""); len(all) > 0 {
		t.Errorf("it is there: %v", all)
	}
}
