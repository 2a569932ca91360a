// Package mcp presents the use cases as MCP tools and resources: schemas, arguments, records as
// results, errors as answers that a model can act on.
//
// It does not serve: the transports in adapters/transport do, each the same server. It decides
// nothing about runs either; it only translates.
package mcp

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// Runner is the use case behind the tools.
type Runner interface {
	RunOnce(ctx context.Context, r core.Request, progress func(core.Progress)) (core.Record, error)
}

// Options describe the server to its clients; the zero value of a field leaves it unsaid.
type Options struct {
	Version      string
	DefaultImage string
	Images       []string // what the image argument may be
	Backends     []string // what the backend argument may be; without any, there is none
	Timeout      time.Duration
	MaxTimeout   time.Duration
	Memory       int64 // bytes of a box
	Tenant       string
	Log          *slog.Logger
}

// Server is the MCP server with Boxwright's tools.
type Server struct {
	*server.MCPServer
	options   Options
	runner    Runner
	artifacts artifact.Store
	inFlight  atomic.Int64
}

const instructions = "Runs Python programs in throw-away boxes without network. Each call is a fresh box: nothing stays between calls. Files that a program writes to its working directory come back."

// New makes the server. It serves nothing until a transport takes it.
func New(runner Runner, artifacts artifact.Store, o Options) *Server {
	s := &Server{options: o, runner: runner, artifacts: artifacts}
	s.MCPServer = server.NewMCPServer("boxwright", o.Version,
		server.WithTitle("Boxwright"),
		server.WithInstructions(instructions),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false),
		server.WithToolHandlerMiddleware(s.guard),
	)
	s.AddTool(s.runPythonEphemeral())
	s.AddResourceTemplate(s.runFiles())
	return s
}

// InFlight counts the tool calls under way, so that a transport whose input ended can let them end.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// guard is the outermost layer of every tool: no panic, no raw error and no internal text reaches
// a client.
func (s *Server) guard(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
		began := time.Now()
		defer func() {
			if trouble := recover(); trouble != nil {
				s.options.Log.Error("a tool panicked", "tool", request.Params.Name, "panic", trouble, "stack", string(debug.Stack()))
				result, err = failure(core.ErrInternal), nil
			}
		}()
		result, err = next(ctx, request)
		if err != nil {
			level := slog.LevelInfo
			if core.KindOf(err) == core.ErrInternal {
				level = slog.LevelError
			}
			s.options.Log.Log(ctx, level, "a call could not be served", "tool", request.Params.Name, "kind", core.KindOf(err), "error", err, "duration", time.Since(began))
			return failure(err), nil
		}
		s.options.Log.Debug("a call was served", "tool", request.Params.Name, "duration", time.Since(began))
		return result, nil
	}
}
