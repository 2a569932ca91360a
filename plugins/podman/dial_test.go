//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

// answering is an engine on a socket that answers every request with that status and body.
func answering(t *testing.T, status int, body string) *engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return &engine{host: "unix://" + socket, finding: newFinder(Settings{}, fakeMachine(0, nil))}
}

func TestAttachRefused(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   core.Kind
	}{
		"gone":            {http.StatusNotFound, `{"message":"no such exec session","response":404}`, core.ErrNotFound},
		"stopped":         {http.StatusConflict, `{"message":"container is not running","response":409}`, core.ErrUnavailable},
		"stopped, older":  {http.StatusInternalServerError, `{"message":"container state improper","response":500}`, core.ErrUnavailable},
		"something else":  {http.StatusInternalServerError, `not even JSON`, core.ErrInternal},
		"too much":        {http.StatusInternalServerError, strings.Repeat("x", 1<<20), core.ErrInternal},
		"a different one": {http.StatusBadRequest, `{"message":"bad","response":400}`, core.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			e := answering(t, c.status, c.body)
			_, err := e.attach(t.Context(), strings.Repeat("a", 64))
			if err = e.dialError(t.Context(), err); core.KindOf(err) != c.want {
				t.Errorf("got %s: %v", core.KindOf(err), err)
			}
		})
	}
}

// TestStreamsLeaveNothing: neither a goroutine here nor a process in the box outlives its stream.
func TestStreamsLeaveNothing(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		env := l.remoteEnv(t, l.backend(nil))
		box, err := env.Backend.Create(t.Context(), daemontest.Spec(env))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { env.Backend.Destroy(context.WithoutCancel(t.Context()), box.ID) })
		before := runtime.NumGoroutine()
		for range 5 {
			stream, err := env.Backend.Dial(t.Context(), box.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := env.Hooks.Answers(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			stream.Close()
		}
		var processes []string
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			processes, err = l.processes(t, box.ID) // the service answers nothing at all when one of them ends meanwhile
			if err == nil && len(processes) == 1 && runtime.NumGoroutine() <= before {
				return
			}
		}
		t.Errorf("%d goroutines became %d; processes %q, %v", before, runtime.NumGoroutine(), processes, err)
	})
}
