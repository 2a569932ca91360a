package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// TestImagePolicies fetches a small image from a registry of the test's own. It has no Python,
// so that a run that got as far as its box says so.
func TestImagePolicies(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	ref, digest, asked, gate := publish(t)
	settings := func(pull string) setup {
		return setup{config: "images: {allow: [python, \"" + strings.TrimSuffix(ref, "box:1") + "*\"], pull: " + pull + "}\n"}
	}
	inBox := outcome{refused: "unsupported", says: []string{"Python"}}
	run := program("print(1)", "image", ref)

	never := serve(t, settings("never"))
	outcome{refused: "not_found", says: []string{ref}}.check(t, never.run(t, run))
	if asked() > 0 {
		t.Error("policy never asked the registry")
	}

	missing := serve(t, settings("missing"))
	gate.Lock()
	c := missing.begin(t, run)
	c.awaitProgress(t, "fetching "+ref)
	gate.Unlock()
	inBox.check(t, c.wait(t))
	if asked() == 0 {
		t.Fatal("the image was not fetched")
	}
	before := asked()
	inBox.check(t, missing.run(t, run))
	inBox.check(t, never.run(t, run))
	if asked() != before {
		t.Error("an image that is there was asked for again")
	}

	always := serve(t, settings("always"))
	inBox.check(t, always.run(t, run))
	if asked() == before {
		t.Error("policy always did not ask the registry")
	}

	repository := strings.TrimSuffix(ref, ":1")
	inBox.check(t, missing.run(t, program("print(1)", "image", repository+"@"+digest)))
	gone := strings.TrimSuffix(ref, "box:1") + "gone:1"
	outcome{refused: "not_found", says: []string{gone}}.check(t, missing.run(t, program("print(1)", "image", gone)))
}

// publish puts a small image into a registry on loopback. asked counts the registry's requests
// since then; while gate is held, it answers none.
func publish(t *testing.T) (ref, digest string, asked func() int64, gate *sync.Mutex) {
	t.Helper()
	var count atomic.Int64
	gate = &sync.Mutex{}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		gate.Lock()
		defer gate.Unlock()
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ref = strings.TrimPrefix(server.URL, "http://") + "/e2e/box:1"
	digest = push(t, ref)
	t.Cleanup(func() { here().engine.removeImage(t, ref) })
	count.Store(0)
	return ref, digest, count.Load, gate
}

// push makes an image for this machine that holds one file, and returns its digest.
func push(t *testing.T, ref string) string {
	t.Helper()
	layer := map[string][]byte{"note": []byte("an image without programs\n")}
	image, err := crane.Image(layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	if err := crane.Push(image, ref, crane.Insecure); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}
