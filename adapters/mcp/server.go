// Package mcp presents the use cases as MCP tools and resources: schemas, arguments, records as
// results, errors as answers that a model can act on.
//
// It does not serve: the transports in adapters/transport do, each the same server. It decides
// nothing about runs either; it only translates.
package mcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// UseCases are what the tools do. app.Service has them; its documentation holds.
type UseCases interface {
	RunOnce(ctx context.Context, r core.Request, progress func(core.Progress)) (core.Record, error)
	RunInSession(ctx context.Context, idOrName string, r core.Request, progress func(core.Progress)) (core.Record, error)

	OpenSession(ctx context.Context, r core.SessionRequest, progress func(core.Progress)) (core.Session, error)
	Sessions(ctx context.Context, owner string) ([]core.SessionInfo, error)
	Inspect(ctx context.Context, owner, idOrName string) ([]core.Variable, error)
	Session(ctx context.Context, owner, idOrName string) (core.Session, error)
	StopSession(ctx context.Context, owner, idOrName string) error

	ListFiles(ctx context.Context, r core.FileRequest, recursive bool) (core.FileListing, error)
	ReadFile(ctx context.Context, r core.FileRequest, offset, limit int64, picture bool) (core.FileContent, error)
	WriteFile(ctx context.Context, r core.FileRequest, content []byte, progress func(core.Progress)) (session string, err error)
	UploadTarget(ctx context.Context, r core.FileRequest) (session string, err error)
	UploadFile(ctx context.Context, r core.FileRequest, content io.Reader) error
	DeleteFile(ctx context.Context, r core.FileRequest) (session string, err error)

	Usage(ctx context.Context, owner string) ([]core.Meter, error)

	BeginInstall(ctx context.Context, owner, idOrName string, packages []string, wait time.Duration) (core.PackageInstall, error)
	InstallStatus(ctx context.Context, owner, idOrName, name string) (core.PackageInstall, error)
	SearchPackages(ctx context.Context, owner, query string) ([]core.Package, error)

	GetRun(ctx context.Context, owner, id string, wait time.Duration) (core.Record, error)
	Runs(ctx context.Context, owner string, before time.Time, limit int) ([]core.Run, error)
	OpenFile(ctx context.Context, owner, run, name string) (io.ReadSeekCloser, core.Artifact, error)
	ReadOutput(ctx context.Context, owner, id string, stream core.Stream, offset, limit int64) (core.OutputPiece, error)
	WriteStdin(ctx context.Context, owner, id string, data []byte, end bool) (taken int64, err error)
	CancelRun(ctx context.Context, owner, id string) (core.Record, error)
}

// Options describe the server to its clients; the zero value of a field leaves it unsaid.
type Options struct {
	Version      string
	DefaultImage string
	Images       []string // what the image argument may be
	Backends     []string // what the backend argument may be; without any, there is none
	Languages    []core.Language
	Timeout      time.Duration
	MaxTimeout   time.Duration
	SyncLimit    time.Duration // how long a call waits for its run
	Memory       int64         // bytes of a box
	Links        Links         // for callers over HTTP; nil: there are none
	Tools        string        // SetEphemeral, SetMCPSandbox; "" is SetDefault
	UploadFrom   []string      // folders of this machine whose files clients may upload; only where clients are on it
	Tenant       string        // the owner where no principal is known
	Server       string        // names this server process
	Log          *slog.Logger
}

// Links makes the addresses that callers over HTTP reach files by, without a key. One that there is none of is "".
type Links interface {
	File(f core.Artifact) string
	Archive(run string) string // all files of a run, as a ZIP archive
	// Upload is where a file of an owner's sandbox can be put to with HTTP's PUT, of so many bytes at most.
	Upload(owner, sandbox, path string) (url string, maxSize int64, until time.Time)
}

// Server is the MCP server with Boxwright's tools.
type Server struct {
	*server.MCPServer
	options  Options
	cases    UseCases
	lacking  map[string]bool // tools of ours that the set which was chosen has not
	inFlight atomic.Int64
}

const instructions = "Runs code in isolated boxes without network. run_python keeps variables and files between calls; run_python_ephemeral and run_code start from nothing each time. Files that a program writes to its working directory come back. A run that takes long goes on in the background: get_run tells how it ends."

// New makes the server. It serves nothing until a transport takes it.
func New(cases UseCases, o Options) *Server {
	s := &Server{options: o, cases: cases, lacking: map[string]bool{}}
	tools := s.tools()
	for _, t := range s.ownTools() {
		s.lacking[t.name] = !slices.ContainsFunc(tools, func(has tool) bool { return has.name == t.name })
	}
	s.MCPServer = server.NewMCPServer("boxwright", o.Version,
		server.WithTitle("Boxwright"),
		server.WithInstructions(s.inSet(instructions)),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false),
		server.WithToolHandlerMiddleware(s.guard),
	)
	for _, t := range tools {
		s.add(t)
	}
	s.AddResourceTemplate(s.runFiles())
	s.AddResource(s.usage())
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
				result, err = s.failure(core.ErrInternal), nil
			}
		}()
		result, err = next(ctx, request)
		if ctx.Err() != nil {
			return withdrawn(), nil
		}
		if err != nil {
			level := slog.LevelInfo
			if core.KindOf(err) == core.ErrInternal {
				level = slog.LevelError
			}
			s.options.Log.Log(ctx, level, "a call could not be served", "tool", request.Params.Name, "kind", core.KindOf(err), "error", err, "duration", time.Since(began))
			return s.failure(err), nil
		}
		s.options.Log.Debug("a call was served", "tool", request.Params.Name, "duration", time.Since(began))
		return result, nil
	}
}

// withdrawnMark is what no program can put into an answer: quotes in a text are escaped.
const withdrawnMark = `"boxwright/withdrawn":true`

// withdrawn is the answer to a call that its client has cancelled. The protocol wants none, and clients
// may trip over one; the library sends one always. How the run ended is kept with it.
func withdrawn() *mcp.CallToolResult {
	result := mcp.NewToolResultError("cancelled: the client withdrew the call")
	result.Meta = &mcp.Meta{AdditionalFields: map[string]any{"boxwright/withdrawn": true}}
	return result
}

// IsWithdrawn tells a transport that line answers a call that its client has cancelled, so that it is
// not to be sent.
func IsWithdrawn(line []byte) bool {
	const most = 1 << 10 // an id is all in it that may be long
	return len(line) < most && bytes.Contains(line, []byte(withdrawnMark))
}
