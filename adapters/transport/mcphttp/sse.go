package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"

	"github.com/boxwright/boxwright/core"
)

// MessagesPath is where clients of SSE send what they say; the older program's.
const MessagesPath = "/messages/"

// SSE is the handler of the stream of events. It is a session for as long as it is open.
func (s *Server) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet { // a stream has no mere headers
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "this method is not for this address", http.StatusMethodNotAllowed)
			return
		}
		who, err := owner(r)
		if err == nil {
			err = s.connect(w, r, who)
		}
		if err != nil {
			refuse(w, err)
		}
	})
}

// connect serves one stream to its end, which ends what was called on it.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, who string) error {
	one, leave, err := s.sessions.begin(who)
	if err != nil {
		return err
	}
	defer s.sessions.close(one)
	defer leave()
	c := newConnection(one)
	if err := s.mcp.RegisterSession(r.Context(), c); err != nil {
		return core.Errorf(core.ErrInternal, "the session cannot be opened")
	}
	defer s.mcp.UnregisterSession(r.Context(), one.id)
	s.keep(c)
	defer s.drop(c)
	ctx, release := bound(r.Context(), one.ctx)
	defer release()
	out := newStream(w, s.options.Heartbeat)
	defer out.end()
	w.Header().Set("Content-Type", "text/event-stream")
	out.WriteHeader(http.StatusOK)
	if out.send("endpoint", []byte(s.options.Prefix+MessagesPath+"?session_id="+one.id)) == nil {
		c.speak(ctx, s.draining, out)
	}
	return nil
}

func (s *Server) keep(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections[c.id] = c
}

// drop ends the session first, so that its calls end, and waits for them.
func (s *Server) drop(c *connection) {
	s.mu.Lock()
	delete(s.connections, c.id)
	s.mu.Unlock()
	c.end()
	c.close()
}

func (s *Server) connection(id string) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections[id]
}

// Messages is the handler of what clients of SSE send. The answer comes on the stream.
func (s *Server) Messages() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := owner(r)
		if err == nil {
			err = s.receive(r, who)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

// receive takes one message to its session.
func (s *Server) receive(r *http.Request, who string) error {
	id := r.URL.Query().Get("session_id")
	if id == "" {
		return core.Errorf(core.ErrInvalid, "session_id is missing").WithHint("open /sse, and send to the address that it tells")
	}
	one, leave, err := s.sessions.enter(who, id)
	if err != nil {
		return err
	}
	defer leave()
	c := s.connection(one.id)
	if c == nil {
		return core.Errorf(core.ErrNotFound, "there is no such stream; it may have ended").WithHint("open /sse")
	}
	m, err := readMessage(r)
	if err != nil {
		return err
	}
	if m.Method == methodCancelled { // the library may not have come to the call yet
		c.withdraw(m.withdrawn)
		return nil
	}
	ctx, done, err := c.begin(m.ID)
	if err != nil {
		return err
	}
	principal, _ := core.PrincipalOf(r.Context())
	ctx = s.mcp.WithContext(core.WithPrincipal(ctx, principal), c)
	if m.ID == nil { // what it tells holds for what comes after it
		s.handle(ctx, c, m, done)
	} else {
		go s.handle(ctx, c, m, done)
	}
	return nil
}

// handle has the library serve a message. A call goes on when the request that brought it is over; it ends with the
// stream.
func (s *Server) handle(ctx context.Context, c *connection, m message, done func()) {
	defer done()
	defer s.recover(c, m)
	if answer := s.mcp.HandleMessage(ctx, m.raw); answer != nil {
		s.answer(c, answer)
	}
}

// answer puts an answer on the stream, but for one to a call that its client has withdrawn.
func (s *Server) answer(c *connection, answer any) {
	line, err := json.Marshal(answer)
	if err != nil {
		s.options.Log.Error("an answer cannot be written", "error", err)
		return
	}
	if !s.options.Unwanted(line) {
		c.answer(line)
	}
}

// recover is the last line: tools have a guard of their own.
func (s *Server) recover(c *connection, m message) {
	trouble := recover()
	if trouble == nil {
		return
	}
	s.options.Log.Error("a message could not be served", "method", m.Method, "panic", trouble, "stack", string(debug.Stack()))
	if m.ID != nil {
		c.answer([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"a fault of the server"}}`))
	}
}
