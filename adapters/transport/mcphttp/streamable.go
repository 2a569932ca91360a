package mcphttp

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// Streamable is the handler of streamable HTTP: one address for everything.
func (s *Server) Streamable() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := owner(r)
		if err == nil {
			err = s.answerTo(w, r, who)
		}
		if err != nil {
			refuse(w, err)
		}
	})
}

// answerTo does what the method asks for. Revisions without sessions have none but POST.
func (s *Server) answerTo(w http.ResponseWriter, r *http.Request, who string) error {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch {
	case r.Method == http.MethodPost:
		return s.post(w, r, who)
	case r.Method == http.MethodGet && !modern:
		return s.get(w, r, who)
	case r.Method == http.MethodDelete && !modern:
		return s.delete(w, r, who)
	}
	w.Header().Set("Allow", http.MethodPost)
	http.Error(w, "this method is not for this address", http.StatusMethodNotAllowed)
	return nil
}

// post takes one message.
func (s *Server) post(w http.ResponseWriter, r *http.Request, who string) error {
	m, err := readMessage(r)
	if err != nil {
		return err
	}
	m.raw = nil // the library reads it from the body, which lets go of it
	switch {
	case m.modern:
		return s.postModern(w, r, who, m)
	case m.Method == methodInitialize:
		return s.initialize(w, r, who)
	}
	one, leave, err := s.session(r, who)
	if err != nil {
		return err
	}
	defer leave()
	s.serve(w, r, one.ctx)
	return nil
}

// postModern serves a message of a revision without sessions. There, a call is cancelled by closing its stream. The
// library would take a cancellation by id as well, and end the call of any client that has the same id.
func (s *Server) postModern(w http.ResponseWriter, r *http.Request, who string, m message) error {
	switch m.Method {
	case methodCancelled:
		w.WriteHeader(http.StatusAccepted)
	case methodListen:
		one, leave, err := s.sessions.begin(who)
		if err != nil {
			return err
		}
		defer s.sessions.close(one)
		defer leave()
		s.serve(w, r, one.ctx, s.draining)
	default:
		s.serve(w, r)
	}
	return nil
}

// initialize opens a session, unless the library has no answer that tells the client of it.
func (s *Server) initialize(w http.ResponseWriter, r *http.Request, who string) error {
	one, leave, err := s.sessions.begin(who)
	if err != nil {
		return err
	}
	defer leave()
	r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, one))
	s.serve(w, r, one.ctx)
	if w.Header().Get(server.HeaderKeySessionID) != one.id || r.Context().Err() != nil {
		s.sessions.close(one)
	}
	if !s.sessions.has(one.id) {
		s.forget(one.id) // it may have ended before the library came to remember it
	}
	return nil
}

// get opens the stream of a session on which the server speaks by itself.
func (s *Server) get(w http.ResponseWriter, r *http.Request, who string) error {
	one, leave, err := s.session(r, who)
	if err != nil {
		return err
	}
	defer leave()
	s.serve(w, r, one.ctx, s.draining)
	return nil
}

// delete ends a session with what goes on in it.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, who string) error {
	one, leave, err := s.session(r, who)
	if err != nil {
		return err
	}
	leave()
	s.sessions.close(one)
	w.WriteHeader(http.StatusOK)
	return nil
}

// session is the one that a request names.
func (s *Server) session(r *http.Request, who string) (one *session, leave func(), err error) {
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" {
		return nil, nil, core.Errorf(core.ErrInvalid, "%s is missing", server.HeaderKeySessionID).
			WithHint("initialize first, and send what that answers with each request")
	}
	return s.sessions.enter(who, id)
}

// serve has the library answer, until the client goes or one of the contexts ends.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, until ...context.Context) {
	ctx := r.Context()
	for _, other := range until {
		var release context.CancelFunc
		ctx, release = bound(ctx, other)
		defer release()
	}
	answer := newStream(w, s.options.Heartbeat)
	defer answer.end()
	s.streamable.ServeHTTP(answer, r.WithContext(ctx))
}
