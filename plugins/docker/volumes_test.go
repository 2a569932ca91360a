package docker

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// TestVolumeAfterARestartOfTheDaemon: a daemon that was started anew answers the creation of what it has without
// labels, until somebody inspects it.
func TestVolumeAfterARestartOfTheDaemon(t *testing.T) {
	labels := core.Labels{Instance: "i", Server: "s", Purpose: core.PurposeZone}
	for name, tt := range map[string]struct {
		labels map[string]string
		want   error
	}{"ours": {labels.Map(), nil}, "somebody's": {nil, core.ErrNotFound}} {
		settings := Settings{Host: forgetfulEngine(t, tt.labels)}
		b := newBackend("test", sdk.Config{}, settings, newFinder(settings, machine()))
		v, err := b.EnsureVolume(t.Context(), core.Volume{Name: "boxwright-zone-i", Labels: labels})
		if !errors.Is(err, tt.want) || err == nil && v.Labels != labels {
			t.Errorf("%s: got %+v, %v", name, v, err)
		}
	}
}

// forgetfulEngine has one volume, whose labels it tells only who inspects it.
func forgetfulEngine(t *testing.T, labels map[string]string) (host string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.41")
		case strings.HasSuffix(r.URL.Path, "/info"):
			answer(system.Info{OSType: "linux", Architecture: "x86_64"})
		case strings.HasSuffix(r.URL.Path, "/volumes/create"):
			answer(volume.Volume{Name: "boxwright-zone-i"})
		default:
			answer(volume.Volume{Name: "boxwright-zone-i", Labels: labels})
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "unix://" + socket
}
