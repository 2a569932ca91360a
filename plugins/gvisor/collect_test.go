package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/boxwright/boxwright/core"
)

// TestSurplus chooses among images of which two share a base: the oldest first, never one that a box has.
func TestSurplus(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now()
	images := []storedImage{
		{hex: "new", used: now.Add(-2 * day), layers: []string{"base", "n"}},
		{hex: "old", used: now.Add(-20 * day), layers: []string{"base", "o"}},
		{hex: "host", used: now.Add(-5 * day)},
		{hex: "just", used: now.Add(-time.Minute), layers: []string{"j"}},
	}
	sizes := map[string]int64{"base": 100, "n": 10, "o": 20, "j": 1000, "nobody's": 5}
	for what, c := range map[string]struct {
		most         keeping
		inUse        map[string]bool
		goes, layers []string
	}{
		"all fits":              {keeping{30 * day, 1130}, nil, nil, []string{"nobody's"}},
		"one byte too many":     {keeping{30 * day, 1129}, nil, []string{"old"}, []string{"nobody's", "o"}},
		"the oldest is in use":  {keeping{30 * day, 1129}, map[string]bool{"old": true}, []string{"host", "new"}, []string{"n", "nobody's"}},
		"too old":               {keeping{10 * day, 1 << 40}, nil, []string{"old"}, []string{"nobody's", "o"}},
		"too old, and in use":   {keeping{10 * day, 1 << 40}, map[string]bool{"old": true}, nil, []string{"nobody's"}},
		"nothing fits, but for": {keeping{30 * day, 1}, nil, []string{"host", "new", "old"}, []string{"base", "n", "nobody's", "o"}},
	} {
		goes, layers := surplus(images, sizes, c.inUse, c.most, now)
		slices.Sort(goes)
		slices.Sort(layers)
		if !slices.Equal(goes, c.goes) || !slices.Equal(layers, c.layers) {
			t.Errorf("%s: images %q and layers %q go, not %q and %q", what, goes, layers, c.goes, c.layers)
		}
	}
}

// cache is a backend with images of two layers each, a base and their own, that were last used so long ago.
func cache(t *testing.T, used map[string]time.Duration) (*Backend, map[string]string) {
	t.Helper()
	b := storeBackend(t)
	base := layerOf(t, entry{name: "base", content: strings.Repeat("b", 10_000)})
	hexes := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		rec, err := b.store(t.Context(), imageOf(t, base, ownLayer(t, name)), func(string, int, int) {})
		if err == nil {
			rec.Ref = name
			err = writeJSON(b.refFile(name), rec)
		}
		if err != nil {
			t.Fatal(err)
		}
		hexes[name] = strings.TrimPrefix(rec.Digest, "sha256:")
	}
	b.Close() // what the fetches began is over
	for name, ago := range used {
		then := time.Now().Add(-ago)
		if err := os.Chtimes(filepath.Join(b.folders.image(hexes[name]), imageFile), then, then); err != nil {
			t.Fatal(err)
		}
	}
	return b, hexes
}

func ownLayer(t *testing.T, name string) v1.Layer {
	t.Helper()
	return layerOf(t, entry{name: name, content: strings.Repeat(name, 1000)})
}

// here are the images and the layers that there are.
func (b *Backend) here(hexes map[string]string) (names []string, layers int) {
	for name, hex := range hexes {
		_, image := os.Stat(b.folders.image(hex))
		_, ref := os.Stat(b.refFile(name))
		if image == nil && ref == nil {
			names = append(names, name)
		}
	}
	all, _ := os.ReadDir(b.folders.layer(""))
	slices.Sort(names)
	return names, len(all)
}

// TestCollect: what nobody used goes with its name and its own layer; what a box has stays, and what is left works.
func TestCollect(t *testing.T) {
	const day = 24 * time.Hour
	b, hexes := cache(t, map[string]time.Duration{"box": 200 * day, "old": 100 * day, "new": day})
	if err := b.reserve(t.Context(), newID(), core.BoxSpec{Labels: core.Labels{Instance: "i", Purpose: core.PurposeRun}}, origin{image: hexes["box"]}, time.Now()); err != nil {
		t.Fatal(err)
	}
	os.Chtimes(filepath.Join(b.folders.image(hexes["box"]), imageFile), time.Time{}, time.Now().Add(-200*day))
	if err := b.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, layers := b.here(hexes); !slices.Equal(names, []string{"box", "new"}) || layers != 3 {
		t.Errorf("there are %q with %d layers", names, layers)
	}
	from, err := b.readImage("new", hexes["new"])
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(from.root, "base")); err != nil || len(content) != 10_000 {
		t.Errorf("the shared file has %d bytes: %v", len(content), err)
	}
	isEmpty(t, b.folders.scratch())
	if err := b.reserve(t.Context(), newID(), core.BoxSpec{}, origin{image: hexes["old"]}, time.Now()); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("a box of what is gone: %v", err)
	}
}

func isEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s has %v", dir, left)
	}
}

// TestCollectByBytes: the image that was wanted last stays when only one fits.
func TestCollectByBytes(t *testing.T) {
	b, hexes := cache(t, map[string]time.Duration{"a": 3 * time.Hour, "b": 4 * time.Hour, "c": 5 * time.Hour})
	b.settings.MaxCacheBytes = 10_000 + 1000 + 2*entryBytes
	if _, err := b.readImage("c", hexes["c"]); err != nil { // somebody wants it
		t.Fatal(err)
	}
	if err := b.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, layers := b.here(hexes); !slices.Equal(names, []string{"c"}) || layers != 2 {
		t.Errorf("there are %q with %d layers", names, layers)
	}
}

// TestNothingIsCollectedDuringAFetch, which may be using layers that no image has yet; its end does it.
func TestNothingIsCollectedDuringAFetch(t *testing.T) {
	b, hexes := cache(t, map[string]time.Duration{"old": 4000 * time.Hour})
	temp, err := b.newScratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, _ := b.here(hexes); len(names) != 1 {
		t.Error("the image is gone")
	}
	b.release(temp)
	b.Close()
	if names, layers := b.here(hexes); len(names) != 0 || layers != 0 {
		t.Errorf("%q and %d layers are left", names, layers)
	}
}

// TestNothingIsCollectedUnseen: if it is not known which image a box has, it may be any.
func TestNothingIsCollectedUnseen(t *testing.T) {
	for name, spoil := range map[string]func(b *Backend, id string) error{
		"a record that cannot be read": func(b *Backend, id string) error {
			return errors.Join(b.writeRecord(id, record{Digest: "d"}), os.WriteFile(b.folders.record(id), []byte("{"), 0o600))
		},
		"a record without a digest": func(b *Backend, id string) error { return b.writeRecord(id, record{}) },
		"no list of boxes":          func(b *Backend, _ string) error { return os.Remove(b.folders.boxes()) },
	} {
		b, hexes := cache(t, map[string]time.Duration{"old": 4000 * time.Hour})
		id := newID()
		if err := spoil(b, id); err != nil {
			t.Fatal(err)
		}
		if err := b.collect(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if names, layers := b.here(hexes); len(names) != 1 || layers != 2 {
			t.Errorf("%s: left are %q with %d layers", name, names, layers)
		}
		if err := errors.Join(os.RemoveAll(b.folders.box(id)), os.MkdirAll(b.folders.box(id), private), b.collect(t.Context())); err != nil {
			t.Errorf("%s: once it is seen: %v", name, err)
		}
		if names, _ := b.here(hexes); len(names) != 0 {
			t.Errorf("%s: once it is seen, left are %q", name, names)
		}
	}
}

// TestANameIsNotWrittenDuringACollection, which would take it for what it meant before.
func TestANameIsNotWrittenDuringACollection(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "saved.tar")
	saveImage(t, saved, "some/image:1", layerOf(t, entry{name: "a", content: "a"}))
	b := archiveBackend(t, map[string]string{"saved:1": saved})
	if _, err := b.EnsureImage(t.Context(), "saved:1", core.PullNever, nil); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := os.Remove(b.refFile("saved:1")); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), b.folders.cache)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // the image is here already: only its name is not
	defer cancel()
	if err := b.fetch(ctx, "saved:1", saved, "", func(core.Progress) {}); err == nil {
		t.Error("it did not wait")
	}
	unlock()
	if _, err := b.readRef("saved:1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the name is there: %v", err)
	}
	if err := b.fetch(t.Context(), "saved:1", saved, "", func(core.Progress) {}); err != nil {
		t.Error(err)
	}
}
