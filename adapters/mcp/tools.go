package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// runPythonEphemeral is the tool that runs a program once.
func (s *Server) runPythonEphemeral() (mcp.Tool, server.ToolHandlerFunc) {
	params := s.runParams()
	tool := mcp.Tool{
		Name:            "run_python_ephemeral",
		Title:           "Run Python once",
		Description:     s.runDescription(),
		RawInputSchema:  schemaOf(params),
		RawOutputSchema: mustJSON(runOutputSchema()),
		Annotations: mcp.ToolAnnotation{
			Title: "Run Python once",
			// The box is thrown away, and only the installer reaches the network.
			ReadOnlyHint:    new(false),
			DestructiveHint: new(false),
			IdempotentHint:  new(false),
			OpenWorldHint:   new(true),
		},
	}
	return tool, func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r, err := s.runRequest(request, params)
		if err != nil {
			return nil, err
		}
		watching, stop := context.WithCancel(ctx)
		defer stop()
		progress := newProgress(ctx, s.MCPServer, request.Params.Meta)
		go progress.watch(watching)
		defer progress.settle()
		record, err := s.runner.RunOnce(ctx, r, progress.report())
		if err != nil {
			return nil, err
		}
		return toolResult(record), nil
	}
}

func (s *Server) runDescription() string {
	return fmt.Sprintf(`Runs a complete Python program in a fresh, isolated box and returns what it printed, its exit code and the files it wrote. Values that are not printed are not shown: use print(). Use it for calculations, data work and plots. Nothing is kept between calls: send the whole program each time.

- The working directory is %s. Files written there (also in subfolders) come back; PNG, JPEG, GIF and WebP images are shown. Matplotlib figures that are shown or left open come back as PNG.
- Name third-party packages in dependencies; they are installed before the program starts. The program itself has no network.
- Limits: %g s unless timeout_seconds says otherwise, %s of memory. Long output is cut in the middle; the whole of it comes back as a file.
- A program that fails is a normal result: read exit_code and stderr.

Example: {"code": "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).describe())", "dependencies": ["pandas"]}`,
		core.GuestWork, s.options.Timeout.Seconds(), core.FormatBytes(s.options.Memory))
}

// shownImages explains the patterns of images that are allowed.
func shownImages(patterns []string) string {
	shown := make([]string, len(patterns))
	for i, p := range patterns {
		if shown[i] = p; !strings.ContainsAny(p, ":*") {
			shown[i] = p + " (any tag)"
		}
	}
	return strings.Join(shown, ", ")
}

func (s *Server) runParams() []param {
	params := []param{
		{
			name: "code", required: true,
			description: "the Python program, complete; it runs as __main__, and top-level await works",
			schema:      map[string]any{"type": "string", "minLength": 1},
		},
		{
			name:        "dependencies",
			description: `packages to install first, as PEP 508 requirements: ["pandas", "requests[socks]>=2,<3"]; no options, paths or links`,
			schema:      map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "default": []string{}},
		},
		s.imageParam(),
		{
			name:        "timeout_seconds",
			description: fmt.Sprintf("the program is stopped after this time; above 0, at most %g; installing packages does not count", s.options.MaxTimeout.Seconds()),
			schema: map[string]any{
				"type": "number", "exclusiveMinimum": 0,
				"maximum": s.options.MaxTimeout.Seconds(), "default": s.options.Timeout.Seconds(),
			},
		},
		{
			name:        "stdin",
			description: "text for the program's standard input; without it input() raises EOFError",
			schema:      map[string]any{"type": "string"},
		},
		{
			name:        "files",
			description: "files to put into the working directory before the program starts",
			schema: map[string]any{
				"type": "array",
				"items": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"path":     map[string]any{"type": "string", "description": "relative, such as data/in.csv"},
						"content":  map[string]any{"type": "string"},
						"encoding": map[string]any{"type": "string", "enum": []string{"text", "base64"}, "default": "text"},
					},
					"required":             []string{"path", "content"},
					"additionalProperties": false,
				},
			},
		},
	}
	if len(s.options.Backends) > 0 {
		params = append(params, param{
			name:        "backend",
			description: "where the program runs; left out, the operator's choice",
			schema:      map[string]any{"type": "string", "enum": s.options.Backends},
		})
	}
	return params
}

// imageParam has no default where that is up to the backend.
func (s *Server) imageParam() param {
	schema := map[string]any{"type": "string"}
	allowed := shownImages(s.options.Images)
	if s.options.DefaultImage != "" {
		schema["default"] = s.options.DefaultImage
	}
	if allowed == "" {
		allowed = "the default"
	}
	return param{name: "image", description: "container image with Python; allowed: " + allowed, schema: schema}
}

func (s *Server) runRequest(request mcp.CallToolRequest, params []param) (core.Request, error) {
	args, err := parseArguments(rawArguments(request), params)
	if err != nil {
		return core.Request{}, err
	}
	code, err := args.text("code")
	if err != nil {
		return core.Request{}, err
	}
	r := core.Request{Code: *code, Tenant: s.options.Tenant}
	if r.Dependencies, err = args.texts("dependencies"); err != nil {
		return core.Request{}, err
	}
	if r.Image, err = args.optional("image"); err != nil {
		return core.Request{}, err
	}
	if r.Backend, err = args.optional("backend"); err != nil {
		return core.Request{}, err
	}
	if r.Timeout, err = args.seconds("timeout_seconds"); err != nil {
		return core.Request{}, err
	}
	if r.Stdin, err = args.text("stdin"); err != nil {
		return core.Request{}, err
	}
	r.Files, err = args.files("files")
	return r, err
}

// rawArguments are the bytes that the client sent, where the library kept them.
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
