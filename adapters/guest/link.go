package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/status"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// link is the way to one agent: a stream when there is one, and the means to dial another.
type link struct {
	dial func(context.Context) (io.ReadWriteCloser, error)

	turn   chan struct{} // holds a token while nobody dials
	mu     sync.Mutex
	client *ttrpc.Client // nil when there is none
	ended  *atomic.Bool  // whether the client's stream has ended
	closed bool

	asking atomic.Bool // whether the agent still answers
}

func newLink(dial func(context.Context) (io.ReadWriteCloser, error)) *link {
	l := &link{dial: dial, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// get returns the client in use, or dials.
func (l *link) get(ctx context.Context) (*ttrpc.Client, error) {
	if client, err := l.current(); client != nil || err != nil {
		return client, err
	}
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, core.ContextError(ctx)
	}
	if client, err := l.current(); client != nil || err != nil {
		return client, err
	}
	stream, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	ended := &atomic.Bool{}
	client := ttrpc.NewClient(asConn(stream), ttrpc.WithOnClose(func() { ended.Store(true) }))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = client.Close()
		return nil, errClosed()
	}
	l.client, l.ended = client, ended
	return client, nil
}

func (l *link) current() (*ttrpc.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed()
	}
	return l.client, nil
}

// stands reports whether there is a stream that has not ended.
func (l *link) stands() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client != nil && !l.ended.Load()
}

// isClosed reports whether nobody can dial any more.
func (l *link) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func errClosed() error {
	return core.Errorf(core.ErrUnavailable, "the connection to the box has been closed")
}

// drop gives a client up whose stream is of no use any more.
func (l *link) drop(client *ttrpc.Client) {
	l.mu.Lock()
	if l.client == client {
		l.client = nil
	}
	l.mu.Unlock()
	_ = client.Close()
}

func (l *link) close() error {
	l.mu.Lock()
	client := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if client != nil {
		return client.Close()
	}
	return nil
}

// errLost marks the loss of a stream, as against an answer of the agent's.
var errLost = errors.New("the stream to the box was lost")

// try calls the agent once, on the client in use.
func try[T any](ctx context.Context, l *link, do func(context.Context, guestv1.GuestServiceClient) (T, error)) (T, error) {
	client, err := l.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return on(ctx, l, client, do)
}

// on calls the agent once. It returns when ctx ends, whatever the stream does: what is left of the call then
// ends by itself or with the stream. do must therefore touch nothing of the caller's. A client whose stream
// is lost is dropped; one that others use too is not lost because a call of one caller's is given up.
func on[T any](ctx context.Context, l *link, client *ttrpc.Client, do func(context.Context, guestv1.GuestServiceClient) (T, error)) (T, error) {
	var none T
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := do(ctx, guestv1.NewGuestServiceClient(client))
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		if r.err != nil && lost(r.err) && ctx.Err() == nil {
			l.drop(client)
			return none, errLost
		}
		return r.value, wire.FromStatus(ctx, r.err)
	case <-ctx.Done():
	}
	select {
	case <-results: // the agent's side has noticed too
	case <-time.After(late):
		go l.ask(client)
	}
	return none, core.ContextError(ctx)
}

const (
	// late is how long a call may outlive its ctx before the agent is asked whether it is there.
	late = 50 * time.Millisecond
	// silence is how long the agent may take to say so, in a box that has work to do.
	silence = 10 * time.Second
)

// ask drops a client whose agent does not answer any more.
func (l *link) ask(client *ttrpc.Client) {
	if !l.asking.CompareAndSwap(false, true) {
		return
	}
	defer l.asking.Store(false)
	answers := make(chan error, 1)
	go func() { // it cannot even send, perhaps
		_, err := guestv1.NewGuestServiceClient(client).Describe(context.Background(), &guestv1.DescribeRequest{})
		answers <- err
	}()
	select {
	case err := <-answers:
		if err == nil || !lost(err) {
			return
		}
	case <-time.After(silence):
	}
	l.drop(client)
}

// lost reports whether err is the stream's and not the agent's.
func lost(err error) bool {
	_, answered := status.FromError(err)
	return !answered || errors.Is(err, io.EOF)
}

// call is for what must not be done twice.
func call[T any](ctx context.Context, l *link, do func(context.Context, guestv1.GuestServiceClient) (T, error)) (T, error) {
	value, err := try(ctx, l, do)
	return value, unreachable(err)
}

// retry is for what may be done twice: it dials again once.
func retry[T any](ctx context.Context, l *link, do func(context.Context, guestv1.GuestServiceClient) (T, error)) (T, error) {
	value, err := try(ctx, l, do)
	if errors.Is(err, errLost) {
		return call(ctx, l, do)
	}
	return value, err
}

// unreachable is the caller's word for errLost.
func unreachable(err error) error {
	if !errors.Is(err, errLost) {
		return err
	}
	return core.Errorf(core.ErrUnavailable, "the box cannot be reached any more").
		WithHint("it may have been removed; start again with a new one")
}

// asConn makes a dialled stream what ttrpc wants. Deadlines are never set: try looks after ctx.
func asConn(stream io.ReadWriteCloser) net.Conn {
	if conn, ok := stream.(net.Conn); ok {
		return conn
	}
	return streamConn{stream}
}

type streamConn struct{ io.ReadWriteCloser }

type streamAddr struct{}

func (streamAddr) Network() string { return "box" }
func (streamAddr) String() string  { return "box" }

func (streamConn) LocalAddr() net.Addr              { return streamAddr{} }
func (streamConn) RemoteAddr() net.Addr             { return streamAddr{} }
func (streamConn) SetDeadline(time.Time) error      { return nil }
func (streamConn) SetReadDeadline(time.Time) error  { return nil }
func (streamConn) SetWriteDeadline(time.Time) error { return nil }
