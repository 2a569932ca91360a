// Package daemontest is what the tests of backends share: golden plans, a stand-in for the agent, a
// registry on loopback, and faults between a backend and its engine. It knows no engine.
package daemontest

import (
	"archive/tar"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// OwnCopy copies an agent, and makes it differ from everybody else's, so that its volume is the
// test's own.
func OwnCopy(t *testing.T, agent string) string {
	t.Helper()
	raw, err := os.ReadFile(agent) //nolint:gosec // a path of the test's own
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, append(raw, executiontest.NewInstance()...), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return path
}

// Config is a plugin's configuration with that agent.
func Config(agent string) sdk.Config {
	return sdk.Config{Agents: map[string]string{runtime.GOARCH: agent}, Instance: "lab", Server: "lab"}
}

// Spec asks for a box of the environment's, with default limits.
func Spec(env executiontest.Env) core.BoxSpec {
	return core.BoxSpec{
		Image: env.Image, Limits: core.DefaultLimits(), Labels: core.Labels{Instance: env.Instance}, Unenforced: core.UnenforcedWarn,
	}
}

// EmptyImage is the tar of a root file system with two empty folders.
func EmptyImage() io.Reader {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755})
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777})
	_ = w.Close() // a buffer takes everything
	return &buf
}

// Forward passes connections on to a unix socket, until the listener is closed.
func Forward(listener net.Listener, to string) {
	for {
		here, err := listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("unix", to)
		if err != nil {
			_ = here.Close()
			continue
		}
		go pipe(there, here)
		go pipe(here, there)
	}
}

// pipe ends when either side does.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// Faults makes the nth request after a call of Fail fail, before it reaches the engine.
type Faults struct {
	Next http.RoundTripper

	mu  sync.Mutex
	at  int
	hit bool
}

// Fail is executiontest.Hooks.Fail.
func (f *Faults) Fail(n int) (fired func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.hit = n, false
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.at = 0
		return f.hit
	}
}

// RoundTrip implements http.RoundTripper.
func (f *Faults) RoundTrip(r *http.Request) (*http.Response, error) {
	if !f.due() {
		return f.Next.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"message":"made to fail","response":500}`)),
	}, nil
}

func (f *Faults) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == 0 {
		return false
	}
	f.at--
	f.hit = f.at == 0
	return f.hit
}

// Rewrite changes the answers to requests whose path ends in Suffix.
type Rewrite struct {
	Next   http.RoundTripper
	Suffix string
	Change func(body []byte) []byte
}

// RoundTrip implements http.RoundTripper.
func (w Rewrite) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.Next.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, w.Suffix) {
		return resp, err
	}
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was only read
	raw = w.Change(raw)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	resp.Header.Del("Content-Length")
	return resp, err
}
