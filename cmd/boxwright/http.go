package main

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/mcp"
	"github.com/boxwright/boxwright/adapters/transport/mcphttp"
	"github.com/boxwright/boxwright/adapters/web"
	"github.com/boxwright/boxwright/core"
)

// remote is what serves HTTP, with its listener.
type remote struct {
	*web.Server
	listener net.Listener
	sessions *mcphttp.Server
	log      *slog.Logger
}

// openHTTP listens, but does not serve yet. Without an authenticator all who can connect are the one local user.
func openHTTP(ctx context.Context, c config.Config, system *system, server *mcp.Server, who web.Authenticator) (*remote, error) {
	listen := web.Listen{Address: c.HTTP.Listen, Socket: c.HTTP.UnixSocket, CertFile: c.HTTP.TLSCert, KeyFile: c.HTTP.TLSKey}
	listener, err := listen.Open(who != nil)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if public := c.HTTP.Public(); public != nil {
		prefix = public.JoinPath("/").EscapedPath()
		prefix = prefix[:len(prefix)-1]
	}
	sessions := mcphttp.New(server.MCPServer, mcphttp.Options{
		SessionsPerPrincipal: int(c.HTTP.SessionsPerPrincipal), IdleTimeout: c.HTTP.SessionIdleTimeout.Std(),
		Prefix: prefix, Unwanted: mcp.IsWithdrawn, Log: system.log,
		Ended: func(owner, session string) { system.endClient(ctx, owner, server.ClientOf(session)) },
	})
	options := web.Options{
		Listen: listen, PublicURL: c.HTTP.Public(), Hosts: c.HTTP.AllowedHosts, Origins: c.HTTP.AllowedOrigins, Proxies: c.HTTP.Proxies(),
		Authenticator: who, Anonymous: core.Principal{ID: localTenant, Name: "local user", Admin: true}, KeyInQuery: c.HTTP.APIKeyInQuery,
		BodyLimit: int64(c.HTTP.BodyLimit), RequestsPerMinute: c.HTTP.RequestsPerMinute, DrainTimeout: c.HTTP.DrainTimeout.Std(),
		Ready: system.ready, Drain: sessions.Drain, Cut: sessions.Close, Log: system.log,
	}
	if c.Auth.UsesTokens() {
		options.AuthorizationServers = []string{c.Auth.OIDC.Issuer}
	}
	routes := []web.Route{
		{Pattern: "/mcp", Handler: sessions.Streamable()},
		{Pattern: "GET /sse", Handler: sessions.SSE()},
		{Pattern: "POST " + mcphttp.MessagesPath, Handler: sessions.Messages()},
	}
	files, err := system.openLinks(c.HTTP, listener)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	routes = append(routes, files...)
	if c.Auth.UsesKeys() {
		routes = append(routes, web.Route{Pattern: "POST /setup", Handler: system.setup(), Open: true})
	}
	return &remote{
		Server:   web.New(options, routes...),
		listener: listener, sessions: sessions, log: system.log,
	}, nil
}

// serve serves until ctx ends and all who were served know.
func (r *remote) serve(ctx context.Context) error {
	r.log.Info("listening", "address", r.listener.Addr().String())
	defer r.sessions.Close()
	return r.Serve(ctx, r.listener)
}

// endClient ends what a connection had of its own. When the server ends, that is for the end of the service to do,
// which may keep it for the next server.
func (s *system) endClient(ctx context.Context, owner, client string) {
	if ctx.Err() != nil {
		return
	}
	if err := s.service.EndClient(ctx, owner, client); err != nil && ctx.Err() == nil {
		s.log.Warn("the sandbox of a connection that is over could not be ended; it ends when it is idle", "error", err)
	}
}

// ready tells why no run would get a box; nil if one would.
func (s *system) ready(ctx context.Context) error {
	name, err := s.backends.Default(ctx)
	if err != nil {
		return err
	}
	backend, err := s.backends.Get(name)
	if err != nil {
		return err
	}
	_, err = backend.Info(ctx)
	return err
}
