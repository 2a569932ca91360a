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
	owner    string // of all that comes of it
	client   string // what has a sandbox of its own: a connection or, without one, a credential
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
		if err := allow(ctx, t.name, t.readOnly); err != nil {
			return nil, err
		}
		args, err := parseArguments(rawArguments(request), t.params)
		if err != nil {
			return nil, err
		}
		watching, stop := context.WithCancel(ctx)
		defer stop()
		progress := newProgress(ctx, s.MCPServer, request.Params.Meta)
		go progress.watch(watching)
		defer progress.settle()
		return t.handle(ctx, call{arguments: args, request: request, owner: s.owner(ctx), client: s.client(ctx), progress: progress.report()})
	})
}

// allow refuses what the caller's credential is not for. Who may run may also see what there is.
func allow(ctx context.Context, what string, readOnly bool) error {
	p, known := core.PrincipalOf(ctx)
	if !known || p.Allows(core.ScopeRun) || readOnly && p.Allows(core.ScopeRead) {
		return nil
	}
	return core.Errorf(core.ErrDenied, "the key that was used does not allow %s", what).WithHint("use a key with the scope %s", core.ScopeRun)
}

// owner is whoever calls; where nobody was asked, the tenant that the server is for.
func (s *Server) owner(ctx context.Context) string {
	if p, known := core.PrincipalOf(ctx); known {
		return p.ID
	}
	return s.options.Tenant
}

// client names what a sandbox of a caller's own belongs to: its connection or, where the protocol knows none, its
// credential.
func (s *Server) client(ctx context.Context) string {
	session := server.ClientSessionFromContext(ctx)
	switch p, _ := core.PrincipalOf(ctx); {
	case session == nil:
		return s.options.Server
	case session.SessionID() == "":
		return "credential/" + p.ID + "/" + p.Credential
	}
	return s.ClientOf(session.SessionID())
}

// ClientOf names a connection by its session, unlike any other's of this installation.
func (s *Server) ClientOf(session string) string { return s.options.Server + "/" + session }

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
