package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

const testImage = "boxwright-test/empty:1"

// lab is a real engine, and what tests do to it.
type lab struct {
	api   *client.Client
	host  string
	agent string // the stand-in's path

	runtime string // "" is the engine's default
}

// newLab finds the engine, or skips the test; BOXWRIGHT_REQUIRE forbids that.
func newLab(t *testing.T) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs an engine")
	}
	l := &lab{}
	found, err := newFinder(Settings{}, machine()).Find(t.Context())
	if err != nil {
		if strings.Contains(os.Getenv("BOXWRIGHT_REQUIRE"), "docker") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l.api, l.host = found.api, found.host
	l.agent = daemontest.BuildStandin(t)
	l.importEmpty(t)
	return l
}

func (l *lab) importEmpty(t *testing.T) {
	t.Helper()
	if _, err := l.api.ImageInspect(t.Context(), testImage); err == nil {
		return
	}
	body, err := l.api.ImageImport(t.Context(), image.ImportSource{Source: daemontest.EmptyImage(), SourceName: "-"}, testImage, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, body)
	body.Close()
}

// backend is one on the engine, through a transport of the test's if it is not nil.
func (l *lab) backend(through func(http.RoundTripper) http.RoundTripper) *Backend {
	f := newFinder(Settings{Host: l.host, Runtime: l.runtime}, machine())
	if through != nil {
		f.opts = append(f.opts, client.WithHTTPClient(&http.Client{Transport: through(l.transport())}))
	}
	return newBackend("test", daemontest.Config(l.agent), f.settings, f)
}

func (l *lab) transport() http.RoundTripper {
	network, address, _ := strings.Cut(l.host, "://")
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

// env is an environment for the suite.
func (l *lab) env(t *testing.T) executiontest.Env {
	faults := &daemontest.Faults{}
	b := l.backend(func(next http.RoundTripper) http.RoundTripper { faults.Next = next; return faults })
	env := l.remoteEnv(t, b)
	env.Hooks.Fail = faults.Fail
	env.Hooks.Weak = func(context.Context) (execution.Backend, core.Limit, error) {
		return l.backend(func(next http.RoundTripper) http.RoundTripper { return withoutCPU(next) }), core.LimitCPU, nil
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
	env.Hooks.MissingImage = daemontest.NewRegistry(t).Host + "/missing:1"
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
	b := newBackend("test", daemontest.Config(l.agent), settings, newFinder(settings, machine()))
	return b, func() error {
		listener, err := net.Listen("unix", socket)
		if err == nil {
			t.Cleanup(func() { listener.Close() })
			go daemontest.Forward(listener, strings.TrimPrefix(l.host, "unix://"))
		}
		return err
	}, nil
}

// withoutCPU is an engine without the CPU's control group.
func withoutCPU(next http.RoundTripper) http.RoundTripper {
	return daemontest.Rewrite{Next: next, Suffix: "/info", Change: func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"CpuCfsQuota":true`), []byte(`"CpuCfsQuota":false`))
	}}
}

func (l *lab) fetchable(t *testing.T) (executiontest.Fetchable, error) {
	r := daemontest.NewRegistry(t)
	ref := r.Host + "/some/image:1"
	r.Push(t, ref, runtime.GOARCH)
	l.removeImage(t, ref)
	return executiontest.Fetchable{Ref: ref, Fetches: func() int { return int(r.Manifests.Load()) }}, nil
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
