// Package mcphttp serves an MCP server over HTTP: streamable HTTP, and the older pair of an event stream and an
// address for messages (SSE). Both are handlers; listening, and who may come in, are adapters/web's.
//
// The library speaks the protocol. What it leaves open is closed here: every session belongs to the principal that
// opened it, a call ends with its session or its client, streams show signs of life, and what one client sends
// cannot end another's call (docs/decisions/0023).
package mcphttp

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// Options bound the sessions. The zero value of a number is its default.
type Options struct {
	// SessionsPerPrincipal is how many sessions and streams a principal may have open; 1000 by default.
	SessionsPerPrincipal int
	// IdleTimeout is how long a session stays that nobody uses; an hour by default.
	IdleTimeout time.Duration
	// Heartbeat is how often a quiet stream shows that it lives; 15 seconds by default.
	Heartbeat time.Duration
	// Prefix is the path below which a proxy has the server, such as /boxwright; "" is none.
	Prefix string
	// Unwanted tells answers that are not to be sent. nil: there are none.
	Unwanted func(line []byte) bool
	// Ended is told of each session that is over. It may take its time. nil: nobody is.
	Ended func(owner, session string)
	Log   *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.SessionsPerPrincipal == 0 {
		o.SessionsPerPrincipal = 1000
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = time.Hour
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Unwanted == nil {
		o.Unwanted = func([]byte) bool { return false }
	}
	if o.Ended == nil {
		o.Ended = func(string, string) {}
	}
	return o
}

// Server is an MCP server over HTTP.
type Server struct {
	options    Options
	mcp        *server.MCPServer
	streamable *server.StreamableHTTPServer
	sessions   *sessions
	draining   context.Context // ends when the server is about to
	drain      context.CancelFunc
	sweeping   sync.WaitGroup
	stop       context.CancelFunc // ends the sweep

	mu          sync.Mutex
	connections map[string]*connection // by session; those of SSE
}

// New makes the handlers of s. Close ends what they began.
func New(s *server.MCPServer, o Options) *Server {
	o = o.withDefaults()
	h := &Server{options: o, mcp: s, connections: map[string]*connection{}}
	h.sessions = newSessions(o, h.over)
	h.streamable = server.NewStreamableHTTPServer(s,
		server.WithSessionIdManagerResolver(resolver{h.sessions}),
		server.WithStreamableHTTPLogger(o.Log),
		server.WithDisableLocalhostProtection(true), // hosts are checked before, all of them
	)
	h.draining, h.drain = context.WithCancel(context.Background())
	var sweep context.Context
	sweep, h.stop = context.WithCancel(context.Background())
	h.sweeping.Go(func() { h.sessions.sweep(sweep) })
	return h
}

// Drain opens no more sessions, and ends streams on which nobody waits for an answer.
func (s *Server) Drain() {
	s.sessions.refuse()
	s.drain()
}

// Owners are the principals that have sessions or streams open.
func (s *Server) Owners() []string { return s.sessions.owners() }

// Expel ends a principal's sessions and streams, with the calls on them.
func (s *Server) Expel(owner string) { s.sessions.expel(owner) }

// Close ends all sessions with their calls, and returns when whoever is told of that has been.
func (s *Server) Close() {
	s.Drain()
	s.sessions.closeAll()
	s.stop()
	s.sweeping.Wait()
}

// over tells of a session that is.
func (s *Server) over(session *session) {
	s.forget(session.id)
	s.options.Ended(session.owner, session.id)
}

// forget has the library forget a session.
func (s *Server) forget(id string) {
	s.streamable.Handle(nowhere{}, &server.HTTPRequest{
		Method: http.MethodDelete, Header: http.Header{server.HeaderKeySessionID: {id}}, Context: context.Background(),
	})
}

// nowhere is where an answer goes that nobody waits for.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Flush()                      {}
func (nowhere) CanStream() bool             { return false }

// owner is the principal of a request. There always is one behind the guard; without it nobody is let in.
func owner(r *http.Request) (string, error) {
	p, ok := core.PrincipalOf(r.Context())
	if !ok || p.ID == "" {
		return "", core.Errorf(core.ErrDenied, "nobody knows who sends this")
	}
	return p.ID, nil
}

// bound is ctx, but ends with other too.
func bound(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}
