package daemontest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry is a real registry on this machine's loopback.
type Registry struct {
	Host      string        // 127.0.0.1:port
	Manifests atomic.Int32  // how often a manifest was asked for
	Hold      chan struct{} // blobs are sent once this is closed; nil sends them at once
}

// NewRegistry starts one that ends with the test.
func NewRegistry(t *testing.T) *Registry {
	t.Helper()
	r := &Registry{}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		reading := q.Method == http.MethodGet || q.Method == http.MethodHead
		if reading && strings.Contains(q.URL.Path, "/manifests/") {
			r.Manifests.Add(1)
		}
		if reading && strings.Contains(q.URL.Path, "/blobs/") && r.Hold != nil {
			<-r.Hold
		}
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Push puts an image of random content for linux/arch into the registry.
func (r *Registry) Push(t *testing.T, ref, arch string) v1.Image {
	t.Helper()
	img, err := random.Image(64<<10, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, img); err != nil {
		t.Fatal(err)
	}
	return img
}
