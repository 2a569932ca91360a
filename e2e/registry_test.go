package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestImagePolicies fetches a small image from a registry of the test's own. It has no Python,
// so that a run that got as far as its box says so.
func TestImagePolicies(t *testing.T) {
	require(t, "docker")
	t.Parallel()
	ref, asked, gate := publish(t)
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
	digests := docker(t, "image", "inspect", "--format", "{{range .RepoDigests}}{{println .}}{{end}}", ref)
	i := slices.IndexFunc(digests, func(d string) bool { return strings.HasPrefix(d, repository+"@") })
	inBox.check(t, missing.run(t, program("print(1)", "image", digests[i])))
	gone := strings.TrimSuffix(ref, "box:1") + "gone:1"
	outcome{refused: "not_found", says: []string{gone}}.check(t, missing.run(t, program("print(1)", "image", gone)))
}

// publish puts an image into a registry on loopback and removes it from the engine. asked counts
// the registry's requests since then; while gate is held, it answers none.
func publish(t *testing.T) (ref string, asked func() int64, gate *sync.Mutex) {
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
	docker(t, "tag", busyboxImage, ref)
	t.Cleanup(func() { docker(t, "rmi", "-f", ref) })
	docker(t, "push", "-q", ref)
	docker(t, "rmi", ref)
	count.Store(0)
	return ref, count.Load, gate
}
