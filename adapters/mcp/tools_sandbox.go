package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// sandboxTools make, list and end sandboxes.
func (s *Server) sandboxTools() []tool {
	return []tool{s.sandboxInitialize(), s.listSandboxes(), s.sandboxInspect(), s.sandboxStop()}
}

// sandboxResult is a sandbox as clients see it.
type sandboxResult struct {
	ID          string   `json:"sandbox_id"`
	Name        string   `json:"name,omitempty"`
	State       string   `json:"state"` // idle, busy
	Waiting     int      `json:"waiting,omitempty"`
	Image       string   `json:"image"`
	Backend     string   `json:"backend"`
	Packages    []string `json:"packages"`
	Created     string   `json:"created"`
	LastUsed    string   `json:"last_used"`
	Expires     string   `json:"expires"`
	IdleSeconds float64  `json:"idle_timeout_seconds"`
}

func sandboxOf(i core.SessionInfo) sandboxResult {
	state := "idle"
	if i.Busy {
		state = "busy"
	}
	return sandboxResult{
		ID: i.ID, Name: i.Name, State: state, Waiting: i.Waiting, Image: i.Image.Ref, Backend: i.Backend,
		Packages: append([]string{}, i.Requirements...), Created: stamp(i.Created), LastUsed: stamp(i.Used),
		Expires: stamp(i.Expires()), IdleSeconds: i.IdleTimeout.Seconds(),
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (r sandboxResult) line() string {
	text := r.ID
	if r.Name != "" {
		text += " " + shownName(r.Name)
	}
	text += fmt.Sprintf(" (%s, %s on %s", r.State, r.Image, r.Backend)
	if len(r.Packages) > 0 {
		text += ", with " + strings.Join(r.Packages, ", ")
	}
	return text + ", ends at " + r.Expires + " unless it is used)"
}

func sandboxSchema() map[string]any {
	properties := map[string]any{}
	for name, description := range map[string]string{
		"sandbox_id": "names the sandbox in other tools", "name": "as it was given", "state": "idle or busy", "image": "",
		"backend": "", "created": "RFC 3339", "last_used": "RFC 3339", "expires": "when it ends if nobody uses it",
	} {
		properties[name] = map[string]any{"type": "string", "description": description}
	}
	properties["waiting"] = map[string]any{"type": "integer", "description": "calls that wait for it"}
	properties["idle_timeout_seconds"] = map[string]any{"type": "number"}
	properties["packages"] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	return properties
}

func (s *Server) sandboxInitialize() tool {
	idle := param{
		name:        "idle_timeout_seconds",
		description: "the sandbox ends when it has not been used for so long; left out, the operator's choice",
		schema:      map[string]any{"type": "number", "minimum": 1},
	}
	return tool{
		name: "sandbox_initialize", title: "Make a sandbox",
		description: `Makes a sandbox that stays between calls, and returns its sandbox_id for run_python, run_code and sandbox_exec. It is only needed for a sandbox with packages, another image or a name: run_python without sandbox_id makes one by itself. End it with sandbox_stop when it is not needed any more.`,
		params: slices.Concat([]param{
			textParam("name", "a name to call it by, besides its id; unique among your sandboxes"), s.imageParam(),
			dependenciesParam(), idle,
		}, s.backendParams()),
		output: map[string]any{"type": "object", "properties": sandboxSchema()}, openWorld: true,
		handle: s.initialize,
	}
}

func (s *Server) initialize(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	r := core.SessionRequest{Tenant: c.owner}
	var err error
	if r.Name, err = c.optional("name"); err != nil {
		return nil, err
	}
	if r.Image, err = c.optional("image"); err != nil {
		return nil, err
	}
	if r.Backend, err = c.optional("backend"); err != nil {
		return nil, err
	}
	if r.Dependencies, err = c.texts("dependencies"); err != nil {
		return nil, err
	}
	if r.IdleTimeout, err = c.seconds("idle_timeout_seconds"); err != nil {
		return nil, err
	}
	session, err := s.cases.OpenSession(ctx, r, c.progress)
	if err != nil {
		return nil, err
	}
	result := sandboxOf(core.SessionInfo{Session: session})
	return structuredResult("The sandbox is ready: "+result.line(), result), nil
}

func structuredResult(text string, result any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: result}
}

func (s *Server) listSandboxes() tool {
	items := map[string]any{"type": "object", "properties": sandboxSchema()}
	return tool{
		name: "list_sandboxes", title: "List sandboxes",
		description: "Lists your sandboxes: id, name, whether one is busy, image, packages, and when it ends.",
		output: map[string]any{"type": "object", "properties": map[string]any{
			"sandboxes": map[string]any{"type": "array", "items": items},
		}},
		readOnly: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			all, err := s.cases.Sessions(ctx, c.owner)
			if err != nil {
				return nil, err
			}
			results, lines := []sandboxResult{}, []string{}
			for _, info := range all {
				results = append(results, sandboxOf(info))
				lines = append(lines, "- "+sandboxOf(info).line())
			}
			if len(lines) == 0 {
				lines = []string{s.inSet("There is no sandbox; sandbox_initialize makes one.")}
			}
			return structuredResult(strings.Join(lines, "\n"), map[string]any{"sandboxes": results}), nil
		},
	}
}

func (s *Server) sandboxStop() tool {
	return tool{
		name: "sandbox_stop", title: "End a sandbox",
		description: "Ends a sandbox: its variables, its files and what runs in it are gone. Only your own sandboxes can be ended.",
		params:      []param{sandboxParam("the sandbox's id or name").mandatory()},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"sandbox_id": map[string]any{"type": "string"}, "stopped": map[string]any{"type": "boolean"},
		}},
		destructive: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			sandbox, err := c.optional("sandbox_id")
			if err != nil {
				return nil, err
			}
			if err := s.cases.StopSession(ctx, c.owner, sandbox); err != nil {
				return nil, err
			}
			return structuredResult("The sandbox "+shownName(sandbox)+" has ended.", map[string]any{"sandbox_id": sandbox, "stopped": true}), nil
		},
	}
}
