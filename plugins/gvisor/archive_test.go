package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// writeLayout makes an OCI layout of an image.
func writeLayout(t *testing.T, dir string, image v1.Image) string {
	t.Helper()
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendImage(image)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// archiveBackend has archives as its settings' images, and makes no boxes.
func archiveBackend(t *testing.T, images map[string]string) *Backend {
	t.Helper()
	b := storeBackend(t)
	executable := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(executable, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	b.finder.now = &runsc{path: executable, changed: changed(t, executable)}
	b.settings.Images = images
	return b
}

// TestArchives: a saved file and a layout of the same content are the same image.
func TestArchives(t *testing.T) {
	dir := t.TempDir()
	layer := layerOf(t, entry{name: "etc/", mode: 0o755})
	saved := filepath.Join(dir, "saved.tar")
	saveImage(t, saved, "some/image:1", layer)
	b := archiveBackend(t, map[string]string{
		"saved:1": saved, "folder:1": writeLayout(t, filepath.Join(dir, "layout [1]"), imageOf(t, layer)),
	})
	var digests []string
	for _, name := range []string{"saved:1", "folder:1"} {
		got, err := b.EnsureImage(t.Context(), name, core.PullNever, nil)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, got.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("the same content has the digests %q", digests)
	}
}

// TestWhatIsNoArchive is said of the file, never of a registry, and nothing waits for it to be written.
func TestWhatIsNoArchive(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	layer := layerOf(t, entry{name: "etc/", mode: 0o755}, entry{name: "etc/a", content: strings.Repeat("x", 50_000)})
	saveImage(t, at("whole"), "some/image:1", layer)
	whole, err := os.ReadFile(at("whole"))
	if err != nil {
		t.Fatal(err)
	}
	layoutOf := func(name string) string { return writeLayout(t, at(name), imageOf(t, layer)) }
	digest, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	piped, other := layoutOf("piped"), layoutOf("other")
	for _, err := range []error{
		os.WriteFile(at("text"), []byte("not an archive"), 0o644),
		os.WriteFile(at("nothing"), nil, 0o644),
		os.WriteFile(at("cut"), whole[:len(whole)/2], 0o644),
		unix.Mkfifo(at("pipe"), 0o644),
		os.Mkdir(at("folder"), 0o755),
		os.Remove(filepath.Join(piped, "index.json")),
		unix.Mkfifo(filepath.Join(piped, "index.json"), 0o644),
		os.Remove(filepath.Join(other, "blobs/sha256", digest.Hex)),
		unix.Mkfifo(filepath.Join(other, "blobs/sha256", digest.Hex), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{at("text"), at("nothing"), at("cut"), at("pipe"), at("folder"), piped, other, "/dev/zero"} {
		b := archiveBackend(t, map[string]string{"some/image:1": file})
		_, err := b.EnsureImage(t.Context(), "some/image:1", core.PullMissing, nil)
		if core.KindOf(err) != core.ErrInvalid || !strings.Contains(core.HintOf(err), "settings.images") {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, file+" is not an archive of image some/image:1, or is damaged: ") || strings.Contains(text, "registry") {
			t.Errorf("%s: %v", file, err)
		}
		isClean(t, b)
	}
}

// TestAnArchiveThatIsGone: its name alone says what to correct.
func TestAnArchiveThatIsGone(t *testing.T) {
	b := archiveBackend(t, map[string]string{"gone:1": filepath.Join(t.TempDir(), "x")})
	if _, err := b.EnsureImage(t.Context(), "gone:1", core.PullMissing, nil); core.KindOf(err) != core.ErrNotFound || !strings.Contains(err.Error(), "gone:1") {
		t.Errorf("got %v", err)
	}
}
