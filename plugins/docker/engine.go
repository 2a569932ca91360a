package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/boxwright/boxwright/core"
)

const (
	// probeTime bounds how long one endpoint is tried.
	probeTime = 5 * time.Second
	// quickTime bounds what an engine does in a moment: to inspect, to list, to open a stream.
	quickTime = 30 * time.Second
)

// errSilent is the cause of a ctx that ended because the engine did not answer.
var errSilent = errors.New("the engine does not answer")

// finder finds the engine at the first call, and anew after a failure.
type finder struct {
	settings Settings
	machine  surroundings
	opts     []client.Opt // for tests
	patience time.Duration

	search chan struct{} // holds one token while somebody looks

	mu  sync.Mutex
	now *engine
}

func newFinder(s Settings, m surroundings) *finder {
	return &finder{settings: s, machine: m, patience: quickTime, search: make(chan struct{}, 1)}
}

// engine is one connection to a daemon, with what is known of it.
type engine struct {
	api     *client.Client
	host    string
	facts   facts
	finding *finder
	mine    idSet // boxes that are known to be Boxwright's
	filled  idSet // agent volumes that are known to be whole
	owned   idSet // volumes whose root is known to be the box user's
	filling sync.Mutex
}

// quick bounds a call that takes a healthy engine a moment.
func (e *engine) quick(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.finding.patience, errSilent)
}

// slow bounds a call that may take a busy engine a while.
func slow(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, engineTime, errSilent)
}

// facts is what a daemon can do.
type facts struct {
	info   system.Info
	arch   string // as in GOARCH
	limits map[core.Limit]core.Enforcement
}

// engine returns the connection. Only one caller looks for it at a time.
func (f *finder) engine(ctx context.Context) (*engine, error) {
	if now := f.current(); now != nil {
		return now, nil
	}
	select {
	case f.search <- struct{}{}:
		defer func() { <-f.search }()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	if now := f.current(); now != nil {
		return now, nil
	}
	var tried []attempt
	for _, e := range discover(f.settings, f.machine) {
		found, err := f.try(ctx, e)
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		if err == nil {
			f.set(found)
			return found, nil
		}
		tried = append(tried, attempt{e, err})
	}
	return nil, unreachable(tried)
}

func (f *finder) current() *engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *finder) set(e *engine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = e
}

// forget makes the next call look for the engine anew.
func (f *finder) forget(e *engine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == e {
		f.now = nil
	}
}

func (f *finder) try(ctx context.Context, e endpoint) (*engine, error) {
	if e.err != nil {
		return nil, e.err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := knock(ctx, e.host); err != nil {
		return nil, err
	}
	api, err := client.NewClientWithOpts(f.options(e)...)
	if err != nil {
		return nil, err
	}
	info, err := api.Info(ctx)
	if err != nil {
		_ = api.Close() // nothing is open
		return nil, err
	}
	return &engine{api: api, host: e.host, facts: factsOf(info, f.settings.Runtime), finding: f}, nil
}

// knock opens a socket and closes it: the client hides why one cannot be opened.
func knock(ctx context.Context, host string) error {
	network, address, _ := strings.Cut(host, "://")
	if network != "unix" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (f *finder) options(e endpoint) []client.Opt {
	opts := []client.Opt{client.WithHost(e.host)}
	if e.tlsDir != "" {
		file := func(name string) string { return filepath.Join(e.tlsDir, name) }
		opts = append(opts, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}
	if version := f.machine.getenv("DOCKER_API_VERSION"); version != "" {
		opts = append(opts, client.WithVersion(strings.TrimPrefix(version, "v")))
	} else {
		opts = append(opts, client.WithAPIVersionNegotiation())
	}
	return append(opts, f.opts...)
}

// attempt is an endpoint that did not answer.
type attempt struct {
	endpoint endpoint
	err      error
}

// unreachable says what was tried, and what to do.
func unreachable(tried []attempt) error {
	list := make([]string, len(tried))
	denied := false
	for i, t := range tried {
		list[i] = fmt.Sprintf("%s (%s): %s", t.endpoint.host, t.endpoint.source, reason(t.err))
		denied = denied || errors.Is(t.err, fs.ErrPermission)
	}
	err := core.Errorf(core.ErrUnavailable, "no Docker engine answers; tried %s", strings.Join(list, "; "))
	switch {
	case denied:
		return err.WithHint("this user may not use the engine's socket: add it to the group docker, or use rootless Docker")
	case len(tried) == 1 && tried[0].endpoint.explicit:
		return err.WithHint("start that engine, or correct %s", tried[0].endpoint.source)
	}
	return err.WithHint("start Docker (for example: sudo systemctl start docker), or set DOCKER_HOST or backends.docker.settings.host")
}

// reason is err in a few words.
func reason(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not there"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	case errors.As(err, &dns):
		return "unknown host"
	}
	return err.Error()
}

// idSet remembers ids, not for ever.
type idSet struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

const maxIDs = 10_000

func (s *idSet) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) >= maxIDs {
		s.ids = map[string]struct{}{}
	}
	s.ids[id] = struct{}{}
}

func (s *idSet) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

func (s *idSet) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}
