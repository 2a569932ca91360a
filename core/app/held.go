package app

import (
	"context"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// sessions are those that this server uses. What is true of a session is in the store; here is what a
// process needs to use it: its stream and its queue.
type sessions struct {
	mu      sync.Mutex
	held    map[string]*held  // by id
	opening map[string]*first // by connection: two first calls make one session
}

// first are the calls of a connection that want its session.
type first struct {
	line  line
	calls int
}

// held is a session in use by this server.
type held struct {
	line  line
	mu    sync.Mutex
	guest execution.Guest // nil until it is needed
	over  bool            // it gets no stream any more
}

func newSessions() *sessions {
	return &sessions{held: map[string]*held{}, opening: map[string]*first{}}
}

func (s *sessions) hold(id string) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	if h == nil {
		h = &held{}
		s.held[id] = h
	}
	return h
}

// ids are those of the sessions that are held.
func (s *sessions) ids() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]bool{}
	for id := range s.held {
		ids[id] = true
	}
	return ids
}

// drop forgets a session that is over, and closes its stream.
func (s *sessions) drop(id string) {
	s.mu.Lock()
	h := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	if h != nil {
		h.disconnect()
	}
}

// turn keeps the calls of one connection from opening two sessions.
func (s *sessions) turn(ctx context.Context, client string, most int) (leave func(), err error) {
	f := s.join(client)
	over, err := f.line.enter(ctx, most, func(int) {})
	if err != nil {
		s.part(client, f)
		return nil, err
	}
	return func() {
		over()
		s.part(client, f)
	}, nil
}

func (s *sessions) join(client string) *first {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.opening[client]
	if f == nil {
		f = &first{}
		s.opening[client] = f
	}
	f.calls++
	return f
}

// part forgets the queue with its last call.
func (s *sessions) part(client string, f *first) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.calls--; f.calls == 0 {
		delete(s.opening, client)
	}
}

// connect returns the stream to the session's agent, and makes it if there is none. Nobody waits for another's
// dial, which may hang.
func (h *held) connect(dial func() (execution.Guest, error)) (execution.Guest, error) {
	h.mu.Lock()
	guest := h.guest
	h.mu.Unlock()
	if guest != nil {
		return guest, nil
	}
	guest, err := dial()
	if err != nil {
		return nil, err
	}
	return h.adopt(guest)
}

// adopt keeps a new stream, and returns the one to use: if somebody was quicker, that one's.
func (h *held) adopt(guest execution.Guest) (execution.Guest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.guest != nil {
		_ = guest.Close() // nobody uses it
	}
	switch {
	case h.over:
		return nil, core.Errorf(core.ErrUnavailable, "the sandbox has been ended meanwhile")
	case h.guest == nil:
		h.guest = guest
	}
	return h.guest, nil
}

func (h *held) disconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.guest != nil {
		_ = h.guest.Close() // the box is gone, or about to go
		h.guest = nil
	}
}
