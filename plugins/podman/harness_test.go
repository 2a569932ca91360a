//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/images"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

const testImage = "boxwright-test/empty:1"

// lab is a real engine, and what tests do to it.
type lab struct {
	*engine
	agent string // the stand-in's path
}

// onEach runs a test on the system's service and on an ordinary user's. One that is not there is
// skipped; BOXWRIGHT_REQUIRE forbids that.
func onEach(t *testing.T, test func(t *testing.T, l *lab)) {
	for _, c := range []struct{ name, require, variable string }{
		{"rootful", "podman", "BOXWRIGHT_PODMAN"},
		{"rootless", "podman-rootless", "BOXWRIGHT_PODMAN_ROOTLESS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("it needs an engine")
			}
			l, err := newLab(t, os.Getenv(c.variable))
			switch required := slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), c.require); {
			case err != nil && required:
				t.Fatal(err)
			case err != nil:
				t.Skip(err)
			case l.facts().rootless != (c.name == "rootless"):
				t.Fatalf("%s is another kind of service", c.variable)
			}
			test(t, l)
		})
	}
}

func newLab(t *testing.T, host string) (*lab, error) {
	t.Helper()
	if host == "" {
		return nil, fmt.Errorf("no service is named; hack/podman-up.sh starts one")
	}
	found, err := newFinder(Settings{Host: host}, machine()).Find(t.Context())
	if err != nil {
		return nil, err
	}
	l := &lab{engine: found, agent: daemontest.BuildStandin(t)}
	l.importEmpty(t)
	return l, nil
}

func (l *lab) importEmpty(t *testing.T) {
	t.Helper()
	if _, err := l.inspectRef(t.Context(), testImage); err == nil {
		return
	}
	_, err := images.Import(l.use(t.Context()), daemontest.EmptyImage(), new(images.ImportOptions).WithReference(localHost+"/"+testImage))
	if err != nil {
		t.Fatal(err)
	}
}

// backend is one on the engine, through a transport of the test's if it is not nil.
func (l *lab) backend(through func(http.RoundTripper) http.RoundTripper) *Backend {
	f := newFinder(Settings{Host: l.host}, machine())
	f.through = through
	return newBackend("test", daemontest.Config(l.agent), f)
}

// env is an environment for the suite.
func (l *lab) env(t *testing.T) executiontest.Env {
	faults := &daemontest.Faults{}
	b := l.backend(func(next http.RoundTripper) http.RoundTripper { faults.Next = next; return faults })
	env := l.remoteEnv(t, b)
	env.Hooks.Fail = faults.Fail
	env.Hooks.Weak = func(context.Context) (execution.Backend, core.Limit, error) {
		return l.backend(withoutCPU), core.LimitCPU, nil
	}
	env.Hooks.Down = func(context.Context) (execution.Backend, func() error, error) { return l.down(t) }
	return env
}

// withoutCPU is an engine without the CPU's control group.
func withoutCPU(next http.RoundTripper) http.RoundTripper {
	return daemontest.Rewrite{Next: next, Suffix: "/info", Change: func(body []byte) []byte {
		return []byte(strings.ReplaceAll(string(body), `"cpu",`, ""))
	}}
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
		_, err := containers.Wait(l.use(ctx), box, nil)
		return err
	}
	env.Hooks.ForeignBox = func(ctx context.Context) (executiontest.Foreign, error) { return l.foreignBox(ctx, t) }
	env.Hooks.ForeignVolume = func(ctx context.Context) (executiontest.Foreign, error) { return l.foreignVolume(ctx, t) }
	env.Hooks.MissingImage = daemontest.NewRegistry(t).Host + "/missing:1"
	env.Hooks.Registry = func(context.Context) (executiontest.Fetchable, error) { return l.fetchable(t), nil }
	return env
}

func (l *lab) foreignBox(ctx context.Context, t *testing.T) (executiontest.Foreign, error) {
	s := specgen.NewSpecGenerator(localHost+"/"+testImage, false)
	s.Command = []string{"x"}
	s.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	made, err := containers.CreateWithSpec(l.use(ctx), s, nil)
	if err != nil {
		return executiontest.Foreign{}, err
	}
	t.Cleanup(func() { l.discard(t.Context(), made.ID) })
	return executiontest.Foreign{ID: made.ID, Exists: func(ctx context.Context) (bool, error) {
		return containers.Exists(l.use(ctx), made.ID, nil)
	}}, nil
}

func (l *lab) foreignVolume(ctx context.Context, t *testing.T) (executiontest.Foreign, error) {
	made, err := volumes.Create(l.use(ctx), types.VolumeCreateOptions{Name: executiontest.NewInstance()}, nil)
	if err != nil {
		return executiontest.Foreign{}, err
	}
	t.Cleanup(func() { l.removeVolume(t, made.Name) })
	return executiontest.Foreign{ID: made.Name, Exists: func(ctx context.Context) (bool, error) {
		return volumes.Exists(l.use(ctx), made.Name, nil)
	}}, nil
}

func (l *lab) removeVolume(t *testing.T, name string) {
	volumes.Remove(l.use(context.WithoutCancel(t.Context())), name, new(volumes.RemoveOptions).WithForce(true))
}

// down is a backend whose engine is behind a socket that nobody listens on, until up.
func (l *lab) down(t *testing.T) (execution.Backend, func() error, error) {
	socket := filepath.Join(t.TempDir(), "engine.sock")
	b := newBackend("test", daemontest.Config(l.agent), newFinder(Settings{Host: "unix://" + socket}, machine()))
	return b, func() error {
		listener, err := net.Listen("unix", socket)
		if err == nil {
			t.Cleanup(func() { listener.Close() })
			go daemontest.Forward(listener, strings.TrimPrefix(l.host, "unix://"))
		}
		return err
	}, nil
}

func (l *lab) fetchable(t *testing.T) executiontest.Fetchable {
	r := daemontest.NewRegistry(t)
	ref := r.Host + "/some/image:1"
	r.Push(t, ref, runtime.GOARCH)
	l.removeImage(t, ref)
	return executiontest.Fetchable{Ref: ref, Fetches: func() int { return int(r.Manifests.Load()) }}
}

// removeImage removes an image at the test's end.
func (l *lab) removeImage(t *testing.T, ref string) {
	t.Cleanup(func() {
		ctx := l.use(context.WithoutCancel(t.Context()))
		_, errs := images.Remove(ctx, []string{ref}, new(images.RemoveOptions).WithForce(true).WithIgnore(true))
		for _, err := range errs {
			t.Errorf("removing %s: %v", ref, err)
		}
	})
}
