//go:build remote && containers_image_openpgp

package podman

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// silentEngine tells about itself and answers nothing else, as a service that hangs later does.
func silentEngine(t *testing.T) (host string) {
	t.Helper()
	return tellingEngine(t, func() string { return `["cpu","memory","pids"]` })
}

// tellingEngine is a silent one that lists the control groups which controllers returns.
func tellingEngine(t *testing.T, controllers func() string) (host string) {
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
			fmt.Fprintf(w, `{"host":{"arch":"amd64","cgroupVersion":"v2","cgroupControllers":%s}}`, controllers())
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

// TestAnEngineThatIsConfiguredAnew: boxes are made by what Info tells, not by what the engine could do once.
func TestAnEngineThatIsConfiguredAnew(t *testing.T) {
	var controllers atomic.Value
	controllers.Store(`["cpu","memory","pids"]`)
	var asked atomic.Int32
	host := tellingEngine(t, func() string { asked.Add(1); return controllers.Load().(string) })
	f := newFinder(Settings{Host: host}, machine())
	b := newBackend("test", sdk.Config{}, f)
	if info, err := b.Info(t.Context()); err != nil || info.Limits[core.LimitCPU] != core.EnforcedCgroup {
		t.Fatalf("at first: %v, %v", info.Limits, err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
	controllers.Store(`["memory","pids"]`)
	if info, err := b.Info(t.Context()); err != nil || info.Limits[core.LimitCPU] != core.EnforcedNot {
		t.Fatalf("then: %v, %v", info.Limits, err)
	}
	_, err := b.Create(t.Context(), core.BoxSpec{Image: "x:1", Limits: core.DefaultLimits(), Unenforced: core.UnenforcedRefuse})
	if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(fmt.Sprint(err), "cpu") {
		t.Errorf("a box with a limit that does not hold any more: %s: %v", core.KindOf(err), err)
	}
}
