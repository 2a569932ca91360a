package gvisor

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/boxwright/boxwright/core"
)

// storeImage stores an image of these layers.
func storeImage(ctx context.Context, t *testing.T, b *Backend, layers ...v1.Layer) error {
	t.Helper()
	_, err := b.store(ctx, imageOf(t, layers...), func(string, int, int) {})
	return err
}

// isClean reports what a failed fetch left.
func isClean(t *testing.T, b *Backend) {
	t.Helper()
	for _, dir := range []string{b.folders.layer(""), b.folders.image(""), b.folders.scratch()} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s still has %v", dir, left)
		}
	}
}

// TestLayersThatAreHereCount: an image is as big as all of its layers, whenever they came.
func TestLayersThatAreHereCount(t *testing.T) {
	b := storeBackend(t)
	base := layerOf(t, entry{name: "base", content: strings.Repeat("x", 30_000)})
	if err := storeImage(t.Context(), t, b, base); err != nil {
		t.Fatal(err)
	}
	top := layerOf(t, entry{name: "top", content: strings.Repeat("y", 30_000)})
	b.settings.MaxImageBytes = 50_000
	if err := storeImage(t.Context(), t, b, base, top); core.KindOf(err) != core.ErrExhausted || core.HintOf(err) == "" {
		t.Errorf("two layers of 30000 bytes in 50000: %v", err)
	}
	b.settings.MaxImageBytes = 60_000 + 2*entryBytes
	if err := storeImage(t.Context(), t, b, base, top); err != nil {
		t.Errorf("two layers where they fit: %v", err)
	}
}

// TestAFailedFetchLeavesNothing, not even the layers that came before.
func TestAFailedFetchLeavesNothing(t *testing.T) {
	b := storeBackend(t)
	b.settings.MaxImageBytes = 50_000
	first := layerOf(t, entry{name: "first", content: strings.Repeat("x", 30_000)})
	second := layerOf(t, entry{name: "second", content: strings.Repeat("y", 30_000)})
	for range 2 {
		if err := storeImage(t.Context(), t, b, first, second); core.KindOf(err) != core.ErrExhausted {
			t.Errorf("got %v", err)
		}
		isClean(t, b)
	}
}

func TestTooManyLayers(t *testing.T) {
	b := storeBackend(t)
	layers := make([]v1.Layer, maxLayers+1)
	layer := layerOf(t, entry{name: "a/", mode: 0o755})
	for i := range layers {
		layers[i] = layer
	}
	if err := storeImage(t.Context(), t, b, layers...); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("got %v", err)
	}
	isClean(t, b)
	if err := storeImage(t.Context(), t, b, layer, layer); err != nil {
		t.Errorf("one layer twice: %v", err)
	}
}

// TestFoldersThatAreNotMentioned count like those that are.
func TestFoldersThatAreNotMentioned(t *testing.T) {
	entries := []entry{{name: "a/b/c/one"}, {name: "a/b/d/two"}, {name: "a/three"}} // a, b, c and d besides
	for n, want := range map[int64]core.Kind{7: "", 6: core.ErrExhausted} {
		u := unpacker{ctx: t.Context(), left: room(n * entryBytes)}
		if err := u.unpack(bytes.NewReader(archiveOf(t, entries...)), t.TempDir()); core.KindOf(err) != want {
			t.Errorf("with room for %d: %v", n, err)
		}
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// opened is a layer that is opened in another way.
type opened struct {
	v1.Layer
	open func() (io.ReadCloser, error)
}

func (l opened) Uncompressed() (io.ReadCloser, error) { return l.open() }

// TestAStreamWithoutAnEnd: what is only skipped is bounded too, and goes on only while somebody waits.
func TestAStreamWithoutAnEnd(t *testing.T) {
	b := storeBackend(t)
	id := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	devices := archiveOf(t, entry{name: "d", kind: tar.TypeBlock})
	for what, c := range map[string]struct {
		stream int64
		kind   core.Kind
	}{
		"too long":  {1 << 20, core.ErrExhausted},
		"cancelled": {1 << 62, core.ErrCancelled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		layer := opened{open: func() (io.ReadCloser, error) {
			if c.kind == core.ErrCancelled {
				cancel()
			}
			return io.NopCloser(io.MultiReader(bytes.NewReader(devices), zeros{})), nil
		}}
		_, err := b.unpackLayer(ctx, layer, id, t.TempDir(), &budget{disk: 1 << 20, stream: c.stream}, func(int64) {})
		if core.KindOf(err) != c.kind {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
}

// TestProgressWithinALayer: one big layer shows signs of life.
func TestProgressWithinALayer(t *testing.T) {
	var told []int64
	r := &boundedReader{ctx: t.Context(), from: io.LimitReader(zeros{}, 3<<20), left: room(0), progress: func(mib int64) {
		if len(told) == 0 || told[len(told)-1] != mib {
			told = append(told, mib)
		}
	}}
	if _, err := io.Copy(io.Discard, r); err != nil || len(told) != 4 || told[3] != 3 {
		t.Errorf("told %v, %v", told, err)
	}
	broken := &boundedReader{ctx: t.Context(), from: iotest.ErrReader(io.ErrUnexpectedEOF), left: room(0), progress: func(int64) {}}
	if _, err := io.Copy(io.Discard, broken); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken stream: %v", err)
	}
}

// slowImage is an image of a registry that sends its layer once release is closed, and closes began
// when somebody waits for it.
func slowImage(t *testing.T, began, release chan struct{}) string {
	t.Helper()
	image := imageOf(t, layerOf(t, entry{name: "slow", content: "slow"}))
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String()) {
			close(began)
			<-release
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/slow:1")
	if err == nil {
		err = remote.Write(ref, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

// TestASlowPullIsOnItsOwn: while one image is on its way, other images are fetched, and what it
// has unpacked stays.
func TestASlowPullIsOnItsOwn(t *testing.T) {
	b := storeBackend(t)
	b.finder.now = &runsc{path: os.Args[0], changed: changed(t, os.Args[0])} // no box is made
	quick := filepath.Join(t.TempDir(), "quick.tar")
	saveImage(t, quick, "quick:1", layerOf(t, entry{name: "etc/", mode: 0o755}))
	b.settings.Images = map[string]string{"quick:1": quick}
	began, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	slow := slowImage(t, began, release)
	ensure := func(name string) error {
		_, err := b.EnsureImage(t.Context(), name, core.PullMissing, nil)
		return err
	}
	go func() { ended <- ensure(slow) }()
	select {
	case <-began:
	case err := <-ended:
		t.Fatal(err)
	}
	if err := ensure("quick:1"); err != nil {
		t.Errorf("another image: %v", err)
	}
	if left, _ := os.ReadDir(b.folders.scratch()); len(left) != 1 {
		t.Errorf("the slow one has %v", left)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the slow one: %v", err)
	}
}
