//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// finder finds the service at the first call, and anew after a failure.
type finder struct {
	daemon.Finder[engine]
	settings Settings
	machine  surroundings
	patience time.Duration                             // of calls that take a moment
	through  func(http.RoundTripper) http.RoundTripper // for tests
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

// engine is one connection to a service, with what is known of it.
type engine struct {
	api     *bindings.Connection
	values  context.Context // the bindings look their connection up in it
	host    string
	known   atomic.Pointer[facts] // as it told last
	finding *finder
	mine    daemon.Set // boxes that are known to be Boxwright's
	filled  daemon.Set // agent volumes that are known to be whole
	folders sync.Map   // where the engine keeps agent volumes, by name
	filling sync.Mutex
	turn    turn
}

// connect makes the connection. The bindings refuse services that are too old for them.
func (f *finder) connect(ctx context.Context, at daemon.Endpoint) (*engine, error) {
	api, values, err := f.ping(ctx, at)
	if err != nil {
		return nil, err
	}
	e := &engine{api: api, values: values, host: at.Host, finding: f, turn: newTurn()}
	// The service looks at all of its containers for its report, and waits for those that are busy.
	ctx, cancel := e.quick(ctx)
	defer cancel()
	if _, err := e.learn(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// learn asks the service what it can do: it may have been configured anew since the last time.
func (e *engine) learn(ctx context.Context) (facts, error) {
	var info hostInfo
	if err := e.get(ctx, &info, "/info", nil); err != nil {
		return facts{}, err
	}
	now := factsOf(info, e.host, e.finding.settings.Runtime)
	e.known.Store(&now)
	return now, nil
}

// since is what the service can do now. One that was not there before has just told, and is not asked twice: a
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

// facts is what the service could do when it told last.
func (e *engine) facts() facts { return *e.known.Load() }

// ping asks the service for its version. The values are what the bindings want in a ctx.
func (f *finder) ping(ctx context.Context, at daemon.Endpoint) (*bindings.Connection, context.Context, error) {
	ctx, cancel := context.WithTimeout(ctx, daemon.ProbeTime)
	defer cancel()
	values, err := bindings.NewConnection(ctx, at.Host)
	if err != nil {
		return nil, nil, err
	}
	api, err := bindings.GetClient(values)
	if err != nil {
		return nil, nil, err
	}
	if f.through != nil {
		api.Client.Transport = f.through(api.Client.Transport)
	}
	return api, context.WithoutCancel(values), nil
}

// quick bounds a call that takes a healthy engine a moment.
func (e *engine) quick(ctx context.Context) (context.Context, context.CancelFunc) {
	return patience.Bound(ctx, e.finding.patience)
}

// use is a ctx for the bindings, which want their connection in it.
func (e *engine) use(ctx context.Context) context.Context {
	return connected{Context: ctx, values: e.values}
}

// connected is a caller's ctx with the connection's values. The caller's come first: among them
// is what ends it.
type connected struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c connected) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// get reads a resource into a type of this package's: the bindings' own types follow the newest
// Podman, and some of their fields have had another type in older ones.
func (e *engine) get(ctx context.Context, into any, endpoint string, params url.Values, path ...string) error {
	response, err := e.api.DoRequest(ctx, nil, http.MethodGet, endpoint, params, nil, path...)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	return response.Process(into)
}
