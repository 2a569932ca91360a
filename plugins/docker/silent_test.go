package docker

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/system"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// silentEngine tells about itself and answers nothing else, as a daemon that hangs later does.
func silentEngine(t *testing.T) (host string) {
	t.Helper()
	return tellingEngine(t, func() bool { return true })
}

// tellingEngine is a silent one that can limit processor time while cpu returns true.
func tellingEngine(t *testing.T, cpu func() bool) (host string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.41")
		case strings.HasSuffix(r.URL.Path, "/info"):
			json.NewEncoder(w).Encode(system.Info{OSType: "linux", Architecture: "x86_64", MemoryLimit: true, CPUCfsQuota: cpu(), PidsLimit: true})
		default:
			<-r.Context().Done()
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "unix://" + socket
}

func TestSilentEngineIsUnavailable(t *testing.T) {
	settings := Settings{Host: silentEngine(t)}
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
			f := newFinder(settings, machine())
			f.patience = 50 * time.Millisecond
			b := newBackend("test", sdk.Config{}, settings, f)
			begin := time.Now()
			err := call(b)
			if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(fmt.Sprint(err), "does not answer") || core.HintOf(err) == "" {
				t.Errorf("got %s: %v", core.KindOf(err), err)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if f.Current() != nil {
				t.Error("the next call does not look for the engine anew")
			}
		})
	}
}

// TestEngineThatNeverAnswers accepts connections, as the socket of a stopped process does.
func TestEngineThatNeverAnswers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	settings := Settings{Host: "unix://" + socket}
	b := newBackend("test", sdk.Config{}, settings, newFinder(settings, machine()))
	_, err = b.EnsureImage(t.Context(), "x:1", core.PullMissing, nil)
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(fmt.Sprint(err), "no answer") {
		t.Errorf("got %v", err)
	}
}

// TestAnEngineThatIsConfiguredAnew: boxes are made by what Info tells, not by what the engine could do once.
func TestAnEngineThatIsConfiguredAnew(t *testing.T) {
	var cpu atomic.Bool
	cpu.Store(true)
	var asked atomic.Int32
	settings := Settings{Host: tellingEngine(t, func() bool { asked.Add(1); return cpu.Load() })}
	b := newBackend("test", sdk.Config{}, settings, newFinder(settings, machine()))
	if info, err := b.Info(t.Context()); err != nil || info.Limits[core.LimitCPU] != core.EnforcedCgroup {
		t.Fatalf("at first: %v, %v", info.Limits, err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
	cpu.Store(false)
	if info, err := b.Info(t.Context()); err != nil || info.Limits[core.LimitCPU] != core.EnforcedNot {
		t.Fatalf("then: %v, %v", info.Limits, err)
	}
	_, err := b.Create(t.Context(), core.BoxSpec{Image: "x:1", Limits: core.DefaultLimits(), Unenforced: core.UnenforcedRefuse})
	if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(fmt.Sprint(err), "cpu") {
		t.Errorf("a box with a limit that does not hold any more: %s: %v", core.KindOf(err), err)
	}
}
