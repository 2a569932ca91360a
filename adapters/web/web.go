// Package web is the HTTP server: the listener, and the guard in front of every route that it is given.
//
// Whoever reaches a handler came by a name and from an origin that are allowed, is known, and has not asked too
// often. What the routes do is their own: the MCP ones are in adapters/transport/mcphttp. cmd/boxwright puts
// them together.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Credential is what a request shows of who sends it.
type Credential struct {
	Token      string // a key or a token, as it came; never empty
	RemoteAddr string // an address without port; "" on a unix socket
}

// Authenticator tells who a credential stands for. Its errors are core.ErrDenied if it is not, or no longer,
// one that counts, and core.ErrUnavailable, ErrTimeout or ErrExhausted if that cannot be told now.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credential) (core.Principal, error)
}

// AnyType among a route's types takes bodies of every type, and of none.
const AnyType = "*/*"

// Route is what is served at a pattern of http.ServeMux.
type Route struct {
	Pattern string
	Handler http.Handler
	// Open routes are for everybody, without a principal.
	Open bool
	// Types are the media types that a body may be of; nil is application/json.
	Types []string
	// BodyLimit is of this route's bodies, in bytes; 0 is Options.BodyLimit.
	BodyLimit int64
	// Streamed bodies are not held in memory by the handler, and so not counted among those that are.
	Streamed bool
}

// Options say how the server is reached, and by whom.
type Options struct {
	Listen Listen
	// PublicURL is where clients reach the server, if a proxy is in between; nil: where it listens.
	PublicURL *url.URL
	// Hosts are the names by which clients may call the server, besides the loopback's, if it listens there, the
	// one in Listen and that of PublicURL. One with a port allows this port only.
	Hosts []string
	// Origins are of pages of other sites that may use the server: scheme://host[:port].
	Origins []string
	// Proxies may say which address a request came from.
	Proxies []netip.Prefix

	Authenticator Authenticator  // nil: everybody is Anonymous
	Anonymous     core.Principal //
	// AuthorizationServers give out tokens that the Authenticator knows; clients are told of them (RFC 9728).
	AuthorizationServers []string
	// KeyInQuery also takes ?api_key=, which ends up in logs and histories.
	KeyInQuery bool

	BodyLimit         int64         // bytes
	RequestsPerMinute int64         // of a principal, and of an address where there is none; 0: no bound
	DrainTimeout      time.Duration // how long calls under way may go on when the server ends

	// Ready tells why the server cannot work now; nil if it can.
	Ready func(ctx context.Context) error
	// Drain is called when the server is about to end, Cut when calls have to end at once. Both may be nil.
	Drain, Cut func()
	Log        *slog.Logger
}

// Server serves routes behind the guard.
type Server struct {
	options    Options
	hosts      *hosts
	requests   *limits // of each principal or address
	failures   *limits // to authenticate, of each address
	bodies     *bodies
	handler    http.Handler
	isDraining atomic.Bool
}

// New makes the server, with routes and with those of every server: /healthz, /readyz and the protected resource's
// metadata, if there are authorization servers.
func New(o Options, routes ...Route) *Server {
	s := &Server{
		options: o, hosts: newHosts(o),
		requests: newLimits(o.RequestsPerMinute, max(1, o.RequestsPerMinute/6)),
		failures: newLimits(failuresPerMinute, failuresPerMinute),
		bodies:   newBodies(o),
	}
	mux := http.NewServeMux()
	for _, route := range append(routes, s.ownRoutes()...) {
		mux.Handle(route.Pattern, s.behind(route))
	}
	mux.Handle("/", s.behind(Route{Open: true, Handler: http.NotFoundHandler()}))
	s.handler = mux
	return s
}

// ServeHTTP implements http.Handler. The name is checked before there is a route: even a redirect to the right one is
// for those who came by it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer boundRest(w, r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Add("Vary", "Origin")
	if !isProbe(r) && !s.hosts.allowsHost(r.Host) {
		s.refuse(w, r, refusef(http.StatusForbidden, "this server is not called %.100q; its operator can add the name to http.allowed_hosts", r.Host))
		return
	}
	s.handler.ServeHTTP(w, r)
}
