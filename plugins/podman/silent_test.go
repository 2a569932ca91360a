//go:build remote && containers_image_openpgp

package podman

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// silentEngine tells about itself and answers nothing else, as a service that hangs later does.
func silentEngine(t *testing.T) (host string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Libpod-API-Version", "5.0.0")
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{"host":{"arch":"amd64","cgroupVersion":"v2","cgroupControllers":["cpu","memory","pids"]}}`)
		default:
			<-r.Context().Done()
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "unix://" + socket
}

func TestSilentEngineIsUnavailable(t *testing.T) {
	host := silentEngine(t)
	id := strings.Repeat("a", 64)
	for what, call := range map[string]func(*Backend) error{
		"EnsureImage": func(b *Backend) error {
			_, err := b.EnsureImage(t.Context(), "x:1", core.PullMissing, nil)
			return err
		},
		"Create": func(b *Backend) error {
			_, err := b.Create(t.Context(), core.BoxSpec{Image: "x:1", Limits: core.DefaultLimits()})
			return err
		},
		"List":    func(b *Backend) error { _, err := b.List(t.Context(), "i"); return err },
		"Dial":    func(b *Backend) error { _, err := b.Dial(t.Context(), id); return err },
		"Destroy": func(b *Backend) error { return b.Destroy(t.Context(), id) },
		"EnsureVolume": func(b *Backend) error {
			_, err := b.EnsureVolume(t.Context(), core.Volume{Name: "v"})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFinder(Settings{Host: host}, machine())
			f.patience = 50 * time.Millisecond
			err := call(newBackend("test", sdk.Config{}, f))
			if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(fmt.Sprint(err), "does not answer") || core.HintOf(err) == "" {
				t.Errorf("got %s: %v", core.KindOf(err), err)
			}
			if f.Current() != nil {
				t.Error("the next call does not look for the engine anew")
			}
		})
	}
}

// TestAttachToSilentEngine: the stream's own connection is not the client's, which knows ctx.
func TestAttachToSilentEngine(t *testing.T) {
	f := newFinder(Settings{Host: silentEngine(t)}, machine())
	f.patience = 50 * time.Millisecond
	e, err := f.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := e.quick(t.Context())
	defer cancel()
	_, err = e.attach(ctx, strings.Repeat("a", 64))
	if err = e.dialError(ctx, err); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("got %s: %v", core.KindOf(err), err)
	}
}

// TestServicesTooOld: the bindings need version 4 of the API.
func TestServicesTooOld(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Libpod-API-Version", "3.4.4")
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	_, err = newFinder(Settings{Host: "unix://" + socket}, machine()).Find(t.Context())
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(fmt.Sprint(err), "too old") || !strings.Contains(fmt.Sprint(err), "3.4.4") {
		t.Errorf("got %v", err)
	}
}
