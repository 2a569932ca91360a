package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// volumeBackend is a backend that makes no boxes, and has volume v.
func volumeBackend(t *testing.T) *Backend {
	t.Helper()
	b := storeBackend(t)
	b.finder.now = &runsc{path: os.Args[0], changed: changed(t, os.Args[0])}
	if _, err := b.EnsureVolume(t.Context(), core.Volume{Name: "v", Labels: core.Labels{Instance: "i"}}); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAVolumeGoesWithoutTheLock: its name is free at once, and Creates need not wait for its files.
func TestAVolumeGoesWithoutTheLock(t *testing.T) {
	b := volumeBackend(t)
	unlock, err := lock(t.Context(), b.folders.volumes())
	if err != nil {
		t.Fatal(err)
	}
	going, err := b.takeAway("v")
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.readVolume("v"); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("the volume is still there: %v", err)
	}
	if _, err := b.EnsureVolume(t.Context(), core.Volume{Name: "v", Labels: core.Labels{Instance: "i"}}); err != nil {
		t.Errorf("a new one of the name: %v", err)
	}
	if err := b.RemoveVolume(t.Context(), "v"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(going.dir); err != nil {
		t.Errorf("somebody else's removal took it: %v", err)
	}
	if err := going.remove(); err != nil {
		t.Error(err)
	}
}

// TestWhatIsLeftOfVolumes goes with the next one, however it lies there.
func TestWhatIsLeftOfVolumes(t *testing.T) {
	b := volumeBackend(t)
	inner := filepath.Join(b.folders.volume(removed+"x"), "data", "inner")
	os.MkdirAll(inner, 0o700)
	os.Chmod(filepath.Dir(inner), 0)
	os.MkdirAll(b.folders.data("half"), 0o700)
	for _, name := range []string{"v", "half", "never"} {
		if err := b.RemoveVolume(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := os.ReadDir(b.folders.volumes())
	if err != nil || len(left) != 1 || left[0].Name() != ".lock" {
		t.Errorf("%v is left, %v", left, err)
	}
}
