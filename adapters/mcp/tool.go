package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// tool is one tool: what clients see of it, and what it does with arguments that have been checked for
// their names.
type tool struct {
	name, title, description string
	params                   []param
	output                   map[string]any
	readOnly, destructive    bool
	idempotent               bool // twice is as once; what only reads is so anyway
	openWorld                bool // it may reach a package index or a registry
	handle                   func(ctx context.Context, call call) (*mcp.CallToolResult, error)
}

// call is one call of a tool.
type call struct {
	arguments
	request  mcp.CallToolRequest
	client   string // the connection that it came on
	progress func(core.Progress)
}

// add makes the tool known to clients.
func (s *Server) add(t tool) {
	s.AddTool(mcp.Tool{
		Name:            t.name,
		Title:           t.title,
		Description:     t.description,
		RawInputSchema:  schemaOf(t.params),
		RawOutputSchema: mustJSON(t.output),
		Annotations: mcp.ToolAnnotation{
			Title: t.title, ReadOnlyHint: new(t.readOnly), DestructiveHint: new(t.destructive),
			IdempotentHint: new(t.readOnly || t.idempotent), OpenWorldHint: new(t.openWorld),
		},
	}, func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := parseArguments(rawArguments(request), t.params)
		if err != nil {
			return nil, err
		}
		watching, stop := context.WithCancel(ctx)
		defer stop()
		progress := newProgress(ctx, s.MCPServer, request.Params.Meta)
		go progress.watch(watching)
		defer progress.settle()
		return t.handle(ctx, call{arguments: args, request: request, client: s.client(ctx), progress: progress.report()})
	})
}

// client names the connection of a call, unlike any other's of this installation.
func (s *Server) client(ctx context.Context) string {
	id := s.options.Server
	if session := server.ClientSessionFromContext(ctx); session != nil {
		id += "/" + session.SessionID()
	}
	return id
}

// rawArguments are the arguments as they came, as far as the library lets them through.
func rawArguments(request mcp.CallToolRequest) json.RawMessage {
	if len(request.Params.RawArguments) > 0 {
		return request.Params.RawArguments
	}
	if request.Params.Arguments == nil {
		return nil
	}
	raw, err := json.Marshal(request.Params.Arguments)
	if err != nil {
		return nil
	}
	return raw
}
