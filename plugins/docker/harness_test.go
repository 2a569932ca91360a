package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

const testImage = "boxwright-test/empty:1"

// lab is a real engine, and what tests do to it.
type lab struct {
	api   *client.Client
	host  string
	agent string // the stand-in's path
}

// newLab finds the engine, or skips the test; BOXWRIGHT_REQUIRE forbids that.
func newLab(t *testing.T) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs an engine")
	}
	l := &lab{}
	found, err := newFinder(Settings{}, machine()).engine(t.Context())
	if err != nil {
		if strings.Contains(os.Getenv("BOXWRIGHT_REQUIRE"), "docker") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l.api, l.host = found.api, found.host
	l.agent = buildStandin(t)
	l.importEmpty(t)
	return l
}

func buildStandin(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "standin")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./testdata/standin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the stand-in: %v\n%s", err, out)
	}
	return path
}

func (l *lab) importEmpty(t *testing.T) {
	t.Helper()
	if _, err := l.api.ImageInspect(t.Context(), testImage); err == nil {
		return
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755})
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777})
	w.Close()
	body, err := l.api.ImageImport(t.Context(), image.ImportSource{Source: &buf, SourceName: "-"}, testImage, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, body)
	body.Close()
}

func (l *lab) config(agent string) sdk.Config {
	return sdk.Config{Agents: map[string]string{runtime.GOARCH: agent}, Instance: "lab", Server: "lab"}
}

// backend is one on the engine, through a transport of the test's if it is not nil.
func (l *lab) backend(through func(http.RoundTripper) http.RoundTripper) *Backend {
	f := newFinder(Settings{Host: l.host}, machine())
	if through != nil {
		f.opts = append(f.opts, client.WithHTTPClient(&http.Client{Transport: through(l.transport())}))
	}
	return newBackend("test", l.config(l.agent), f.settings, f)
}

func (l *lab) transport() http.RoundTripper {
	network, address, _ := strings.Cut(l.host, "://")
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

// env is an environment for the suite.
func (l *lab) env(t *testing.T) executiontest.Env {
	faults := &faults{}
	b := l.backend(func(next http.RoundTripper) http.RoundTripper { faults.next = next; return faults })
	env := l.remoteEnv(t, b)
	env.Hooks.Fail = faults.fail
	env.Hooks.Weak = func(context.Context) (execution.Backend, core.Limit, error) {
		return l.backend(func(next http.RoundTripper) http.RoundTripper { return weak{next} }), core.LimitCPU, nil
	}
	env.Hooks.Down = func(context.Context) (execution.Backend, func() error, error) { return l.down(t) }
	return env
}

// remoteEnv has the hooks that only need the engine, for a backend in another process too.
func (l *lab) remoteEnv(t *testing.T, b execution.Backend) executiontest.Env {
	t.Cleanup(func() {
		if c, ok := b.(io.Closer); ok {
			c.Close()
		}
	})
	env := executiontest.RemoteFakeEnv(b) // the stand-in speaks as the fake does
	env.Image = testImage
	stop := env.Hooks.Stop
	env.Hooks.Stop = func(ctx context.Context, box string) error {
		if err := stop(ctx, box); err != nil {
			return err
		}
		ended, failed := l.api.ContainerWait(ctx, box, container.WaitConditionNotRunning)
		select {
		case <-ended:
			return nil
		case err := <-failed:
			return err
		}
	}
	env.Hooks.ForeignBox = func(ctx context.Context) (executiontest.Foreign, error) { return l.foreignBox(ctx, t) }
	env.Hooks.ForeignVolume = func(ctx context.Context) (executiontest.Foreign, error) { return l.foreignVolume(ctx, t) }
	env.Hooks.MissingImage = newRegistry(t).host + "/missing:1"
	env.Hooks.Registry = func(context.Context) (executiontest.Fetchable, error) { return l.fetchable(t) }
	return env
}

func (l *lab) foreignBox(ctx context.Context, t *testing.T) (executiontest.Foreign, error) {
	made, err := l.api.ContainerCreate(ctx, &container.Config{Image: testImage, Cmd: []string{"x"}}, &container.HostConfig{}, nil, nil, "")
	if err != nil {
		return executiontest.Foreign{}, err
	}
	t.Cleanup(func() {
		l.api.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true})
	})
	return executiontest.Foreign{ID: made.ID, Exists: func(ctx context.Context) (bool, error) {
		_, err := l.api.ContainerInspect(ctx, made.ID)
		return err == nil, notFoundIsFine(err)
	}}, nil
}

func (l *lab) foreignVolume(ctx context.Context, t *testing.T) (executiontest.Foreign, error) {
	made, err := l.api.VolumeCreate(ctx, volume.CreateOptions{Name: executiontest.NewInstance()})
	if err != nil {
		return executiontest.Foreign{}, err
	}
	t.Cleanup(func() { l.api.VolumeRemove(context.WithoutCancel(ctx), made.Name, true) })
	return executiontest.Foreign{ID: made.Name, Exists: func(ctx context.Context) (bool, error) {
		_, err := l.api.VolumeInspect(ctx, made.Name)
		return err == nil, notFoundIsFine(err)
	}}, nil
}

func notFoundIsFine(err error) error {
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// down is a backend whose engine is behind a socket that nobody listens on, until up.
func (l *lab) down(t *testing.T) (execution.Backend, func() error, error) {
	socket := filepath.Join(t.TempDir(), "engine.sock")
	settings := Settings{Host: "unix://" + socket}
	b := newBackend("test", l.config(l.agent), settings, newFinder(settings, machine()))
	return b, func() error {
		listener, err := net.Listen("unix", socket)
		if err == nil {
			t.Cleanup(func() { listener.Close() })
			go forward(listener, strings.TrimPrefix(l.host, "unix://"))
		}
		return err
	}, nil
}

func forward(listener net.Listener, to string) {
	for {
		here, err := listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("unix", to)
		if err != nil {
			here.Close()
			continue
		}
		go func() { io.Copy(there, here); there.Close() }()
		go func() { io.Copy(here, there); here.Close() }()
	}
}

// faults makes the nth request that changes something fail, before it reaches the engine.
type faults struct {
	next http.RoundTripper
	mu   sync.Mutex
	at   int
	hit  bool
}

func (f *faults) fail(n int) func() bool {
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

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	if f.at > 0 {
		f.at--
		f.hit = f.at == 0
		if f.hit {
			f.mu.Unlock()
			return &http.Response{
				StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(`{"message":"made to fail"}`)),
			}, nil
		}
	}
	f.mu.Unlock()
	return f.next.RoundTrip(r)
}

// weak is an engine without the CPU's control group.
type weak struct{ next http.RoundTripper }

func (w weak) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/info") {
		return resp, err
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	raw = bytes.ReplaceAll(raw, []byte(`"CpuCfsQuota":true`), []byte(`"CpuCfsQuota":false`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	resp.Header.Del("Content-Length")
	return resp, err
}

// testRegistry is a real registry on this machine's loopback.
type testRegistry struct {
	host      string
	manifests atomic.Int32
	hold      chan struct{} // blobs are sent once this is closed; nil sends them at once
}

func newRegistry(t *testing.T) *testRegistry {
	t.Helper()
	r := &testRegistry{}
	handler := registry.New(registry.Logger(discardLog()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		reading := q.Method == http.MethodGet || q.Method == http.MethodHead
		if reading && strings.Contains(q.URL.Path, "/manifests/") {
			r.manifests.Add(1)
		}
		if reading && strings.Contains(q.URL.Path, "/blobs/") && r.hold != nil {
			<-r.hold
		}
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// push puts an image of random content for platform arch into the registry.
func (r *testRegistry) push(t *testing.T, ref, arch string) v1.Image {
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

func (l *lab) fetchable(t *testing.T) (executiontest.Fetchable, error) {
	r := newRegistry(t)
	ref := r.host + "/some/image:1"
	r.push(t, ref, runtime.GOARCH)
	l.removeImage(t, ref)
	return executiontest.Fetchable{Ref: ref, Fetches: func() int { return int(r.manifests.Load()) }}, nil
}

// removeImage removes an image at the test's end.
func (l *lab) removeImage(t *testing.T, ref string) {
	t.Cleanup(func() {
		_, err := l.api.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true})
		if notFoundIsFine(err) != nil {
			t.Error(fmt.Errorf("removing %s: %w", ref, err))
		}
	})
}
