package web

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// maxBodies bounds all bodies together that are held in memory, and maxBodiesOfOne those of one sender, in bytes.
const (
	maxBodies      = 256 << 20
	maxBodiesOfOne = 64 << 20
)

// bodiesRetry is when to send once more what there was no room for.
const bodiesRetry = 2 * time.Second

// bodies count the bytes of bodies that are held: each by itself is bounded, but not how many there are at a time.
type bodies struct {
	most, share int64 // of all, and of one sender

	mu  sync.Mutex
	all int64
	of  map[string]int64
}

// newBodies has room for the longest body that is allowed, at least.
func newBodies(o Options) *bodies {
	b := &bodies{most: max(maxBodies, o.BodyLimit), share: max(maxBodiesOfOne, o.BodyLimit), of: map[string]int64{}}
	if o.Authenticator == nil {
		b.share = b.most // there is one sender
	}
	return b
}

// take counts n bytes more of a sender, or refuses them as core.ErrUnavailable.
func (b *bodies) take(sender string, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > b.most || b.of[sender]+n > b.share {
		return core.Errorf(core.ErrUnavailable, "the server holds as much of requests as it can").
			WithHint("try again in %g seconds, and send fewer big requests at a time", bodiesRetry.Seconds()).WithRetryAfter(bodiesRetry)
	}
	b.all += n
	b.of[sender] += n
	return nil
}

// give takes n bytes of a sender back.
func (b *bodies) give(sender string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.of[sender] -= n; b.of[sender] == 0 {
		delete(b.of, sender)
	}
}

// body is one that lets nobody keep a connection by sending nothing, and counts what is held of it.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	count   func(n int64) error // nil: the body is not held
}

// Read implements io.Reader. The deadline is taken back with the end: it would end the call as well.
func (b *body) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(readTime))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if b.count != nil && n > 0 {
		if full := b.count(int64(n)); full != nil {
			return 0, full
		}
	}
	return n, err
}

// hold has a request's body counted for its sender until the request is over. One whose length is told is counted at
// once, so that it is refused before it is sent.
func (s *Server) hold(r *http.Request, b *body) (release func(), err error) {
	sender, held := s.sender(r), max(r.ContentLength, 0)
	if err := s.bodies.take(sender, held); err != nil {
		return nil, &refusal{status: http.StatusServiceUnavailable, message: err.Error(), retry: core.RetryAfterOf(err)}
	}
	if r.ContentLength < 0 {
		b.count = func(n int64) error {
			err := s.bodies.take(sender, n)
			if err == nil {
				held += n
			}
			return err
		}
	}
	return func() { s.bodies.give(sender, held) }, nil
}

// sender is whose bodies a request's is one of.
func (s *Server) sender(r *http.Request) string {
	if p, known := core.PrincipalOf(r.Context()); known {
		return "principal " + p.ID
	}
	return "address " + network(s.address(r))
}
