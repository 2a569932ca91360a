// Package conformance is a server with what the official conformance suite asks for by name: tools, resources and
// prompts that Boxwright does not have, behind the guard and the transport that Boxwright has. The end-to-end tests
// serve it; nothing else does.
package conformance

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/mark3labs/mcp-go/server"

	adapter "github.com/boxwright/boxwright/adapters/mcp"
	"github.com/boxwright/boxwright/adapters/transport/mcphttp"
	"github.com/boxwright/boxwright/adapters/web"
	"github.com/boxwright/boxwright/core"
)

const (
	bodyLimit = 1 << 20 // bytes
	drainTime = time.Second
)

// Listen listens on a port of the loopback that is free, as a server without keys does.
func Listen() (net.Listener, error) { return where().Open(false) }

func where() web.Listen { return web.Listen{Address: "127.0.0.1:0"} }

// Serve serves the endpoint /mcp until ctx ends, and closes the listener.
func Serve(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	sessions := mcphttp.New(newServer(), mcphttp.Options{Unwanted: adapter.IsWithdrawn, Log: log})
	defer sessions.Close()
	guarded := web.New(web.Options{
		Listen: where(), Anonymous: core.Principal{ID: "local"}, BodyLimit: bodyLimit, DrainTimeout: drainTime,
		Drain: sessions.Drain, Cut: sessions.Close, Log: log,
	}, web.Route{Pattern: "/mcp", Handler: sessions.Streamable()})
	return guarded.Serve(ctx, listener)
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("boxwright-conformance", "1",
		server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true), server.WithPromptCapabilities(true),
		server.WithCompletions(), server.WithLogging(), server.WithElicitation())
	s.EnableSampling()
	for _, add := range []func(*server.MCPServer){addContents, addNotices, addChanges, addSchemas, addResources, addPrompts, addQuestions} {
		add(s)
	}
	return s
}
