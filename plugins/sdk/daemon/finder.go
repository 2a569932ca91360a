package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// ProbeTime bounds how long an endpoint's first answer takes.
const ProbeTime = 5 * time.Second

// Endpoint is one place where an engine may be.
type Endpoint struct {
	Source   string // who named it, for a person
	Host     string // unix:///path, tcp://host:port
	Explicit bool   // somebody named it: no other one may stand in for it
	TLSDir   string // holds ca.pem, cert.pem, key.pem; "" is no TLS
	Err      error  // why it cannot even be tried
}

// Attempt is an endpoint that did not answer.
type Attempt struct {
	Endpoint Endpoint
	Err      error
}

// Finder finds the engine at the first call, and anew after it was forgotten. E is the
// connection to one.
type Finder[E any] struct {
	Endpoints   func() []Endpoint                                 // best first
	Try         func(ctx context.Context, e Endpoint) (*E, error) // connects to one; its first answer takes ProbeTime at most
	Unreachable func(tried []Attempt) error                       // the error when none answers

	mu     sync.Mutex
	now    *E
	search chan struct{} // holds one token while somebody looks
}

// Find returns the connection. Only one caller looks for it at a time.
func (f *Finder[E]) Find(ctx context.Context) (*E, error) {
	if now := f.Current(); now != nil {
		return now, nil
	}
	search := f.token()
	select {
	case search <- struct{}{}:
		defer func() { <-search }()
	case <-ctx.Done():
		return nil, core.ContextError(ctx)
	}
	if now := f.Current(); now != nil {
		return now, nil
	}
	return f.look(ctx)
}

func (f *Finder[E]) look(ctx context.Context) (*E, error) {
	var tried []Attempt
	for _, e := range f.Endpoints() {
		found, err := f.try(ctx, e)
		if ctx.Err() != nil {
			return nil, core.ContextError(ctx)
		}
		if err == nil {
			f.set(found)
			return found, nil
		}
		tried = append(tried, Attempt{e, err})
	}
	return nil, f.Unreachable(tried)
}

// try knocks first: clients hide why a socket cannot be opened.
func (f *Finder[E]) try(ctx context.Context, e Endpoint) (*E, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	if err := knock(ctx, e.Host); err != nil {
		return nil, err
	}
	return f.Try(ctx, e)
}

func (f *Finder[E]) token() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.search == nil {
		f.search = make(chan struct{}, 1)
	}
	return f.search
}

// Current returns the connection if there is one.
func (f *Finder[E]) Current() *E {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *Finder[E]) set(e *E) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = e
}

// Forget makes the next call look for the engine anew, unless another one has been found since.
func (f *Finder[E]) Forget(e *E) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == e {
		f.now = nil
	}
}

// knock opens a socket and closes it.
func knock(ctx context.Context, host string) error {
	network, address, _ := strings.Cut(host, "://")
	if network != "unix" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ProbeTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Tried lists attempts for a person: each place, who named it, and why it failed.
func Tried(tried []Attempt) string {
	list := make([]string, len(tried))
	for i, t := range tried {
		list[i] = fmt.Sprintf("%s (%s): %s", t.Endpoint.Host, t.Endpoint.Source, reason(t.Err))
	}
	return strings.Join(list, "; ")
}

// Denied reports whether one of the attempts failed for want of a permission.
func Denied(tried []Attempt) bool {
	for _, t := range tried {
		if errors.Is(t.Err, fs.ErrPermission) {
			return true
		}
	}
	return false
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
