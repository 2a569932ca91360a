package docker

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// finder finds the engine at the first call, and anew after a failure.
type finder struct {
	daemon.Finder[engine]
	settings Settings
	machine  surroundings
	opts     []client.Opt  // for tests
	patience time.Duration // of calls that take a moment
}

func newFinder(s Settings, m surroundings) *finder {
	f := &finder{settings: s, machine: m, patience: patience.QuickTime}
	f.Finder = daemon.Finder[engine]{
		Endpoints:   func() []daemon.Endpoint { return discover(s, m) },
		Try:         f.connect,
		Unreachable: unreachable,
	}
	return f
}

// engine is one connection to a daemon, with what is known of it.
type engine struct {
	api     *client.Client
	host    string
	known   atomic.Pointer[facts] // as it told last
	finding *finder
	mine    daemon.Set // boxes that are known to be Boxwright's
	filled  daemon.Set // agent volumes that are known to be whole
	owned   daemon.Set // volumes whose root is known to be the box user's
	filling sync.Mutex
}

// quick bounds a call that takes a healthy engine a moment.
func (e *engine) quick(ctx context.Context) (context.Context, context.CancelFunc) {
	return patience.Bound(ctx, e.finding.patience)
}

// facts is what a daemon can do.
type facts struct {
	info    system.Info
	arch    string // as in GOARCH
	sandbox bool   // boxes run on a kernel of their own
	limits  map[core.Limit]core.Enforcement
}

// connect makes the connection.
func (f *finder) connect(ctx context.Context, at daemon.Endpoint) (*engine, error) {
	api, err := client.NewClientWithOpts(f.options(at)...)
	if err != nil {
		return nil, err
	}
	e := &engine{api: api, host: at.Host, finding: f}
	if err := e.greet(ctx); err != nil {
		_ = api.Close() // nothing is open
		return nil, err
	}
	return e, nil
}

// greet agrees on a version and learns what the daemon can do. For that it looks at all of its containers,
// and takes longer than for its first answer.
func (e *engine) greet(ctx context.Context) error {
	probe, cancel := context.WithTimeout(ctx, daemon.ProbeTime)
	defer cancel()
	pong, err := e.api.Ping(probe)
	if err != nil {
		return err
	}
	e.api.NegotiateAPIVersionPing(pong)
	ctx, cancelLearn := e.quick(ctx)
	defer cancelLearn()
	_, err = e.learn(ctx)
	return err
}

// learn asks the daemon what it can do: it may have been configured anew since the last time.
func (e *engine) learn(ctx context.Context) (facts, error) {
	info, err := e.api.Info(ctx)
	if err != nil {
		return facts{}, err
	}
	now := factsOf(info, e.finding.settings.Runtime)
	e.known.Store(&now)
	return now, nil
}

// since is what the daemon can do now. One that was not there before has just told, and is not asked twice: a
// busy one takes a while.
func (e *engine) since(ctx context.Context, before *engine) (facts, error) {
	if e != before {
		return e.facts(), nil
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	now, err := e.learn(ctx)
	if err != nil {
		return facts{}, e.fail(ctx, err, "the engine did not tell about itself")
	}
	return now, nil
}

// facts is what the daemon could do when it told last.
func (e *engine) facts() facts { return *e.known.Load() }

func (f *finder) options(e daemon.Endpoint) []client.Opt {
	opts := []client.Opt{client.WithHost(e.Host)}
	if e.TLSDir != "" {
		file := func(name string) string { return filepath.Join(e.TLSDir, name) }
		opts = append(opts, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}
	if version := f.machine.getenv("DOCKER_API_VERSION"); version != "" {
		opts = append(opts, client.WithVersion(strings.TrimPrefix(version, "v")))
	} else {
		opts = append(opts, client.WithAPIVersionNegotiation())
	}
	return append(opts, f.opts...)
}

// unreachable says what was tried, and what to do.
func unreachable(tried []daemon.Attempt) error {
	err := core.Errorf(core.ErrUnavailable, "no Docker engine answers; tried %s", daemon.Tried(tried))
	switch {
	case daemon.Denied(tried):
		return err.WithHint("this user may not use the engine's socket: add it to the group docker, or use rootless Docker")
	case len(tried) == 1 && tried[0].Endpoint.Explicit:
		return err.WithHint("start that engine, or correct %s", tried[0].Endpoint.Source)
	}
	return err.WithHint("start Docker (for example: sudo systemctl start docker), or set DOCKER_HOST or backends.docker.settings.host")
}
