package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// packageTools look packages up, and put them into sandboxes.
func (s *Server) packageTools() []tool {
	return []tool{s.searchPackages(), s.installPackage(), s.installStatus()}
}

type packageResult struct {
	Name           string   `json:"name"`
	Version        string   `json:"version,omitempty"` // the newest
	Versions       []string `json:"versions"`
	Summary        string   `json:"summary,omitempty"`
	RequiresPython string   `json:"requires_python,omitempty"`
}

func (p packageResult) line() string {
	text := strings.TrimSpace(p.Name + " " + p.Version)
	if p.Summary != "" {
		text += ": " + p.Summary
	}
	if p.RequiresPython != "" {
		text += " (Python " + p.RequiresPython + ")"
	}
	if len(p.Versions) > 1 {
		text += "; before: " + strings.Join(p.Versions[1:], ", ")
	}
	return text
}

func (s *Server) searchPackages() tool {
	text := map[string]any{"type": "string"}
	items := map[string]any{"type": "object", "properties": map[string]any{
		"name": textSchema("what to put into dependencies"), "version": text, "summary": text,
		"requires_python": text,
		"versions":        listOfTexts("the latest, the newest first"),
	}, "required": []string{"name", "versions"}}
	return tool{
		name: "search_pypi_packages", title: "Look up a Python package",
		description: `Looks a Python package up in the package index by its name, or by the name of a module that it has, and returns its latest versions, its summary and which Python it needs. The index cannot be searched for words.
Example: {"query": "scikit-learn"}`,
		params: []param{textParam("query", `the name of a package, such as "pandas", or of a module, such as "cv2"`).mandatory()},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"packages": map[string]any{"type": "array", "items": items},
		}},
		readOnly: true, openWorld: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			query, err := c.optional("query")
			if err != nil {
				return nil, err
			}
			found, err := s.cases.SearchPackages(ctx, c.owner, query)
			if err != nil {
				return nil, err
			}
			results, lines := []packageResult{}, []string{}
			for _, p := range found {
				result := packageResult{Name: p.Name, Versions: append([]string{}, p.Versions...), Summary: p.Summary, RequiresPython: p.RequiresPython}
				if len(p.Versions) > 0 {
					result.Version = p.Versions[0]
				}
				results, lines = append(results, result), append(lines, "- "+result.line())
			}
			return structuredResult(strings.Join(lines, "\n"), map[string]any{"packages": results}), nil
		},
	}
}

// installPatience is how long a call waits for an installation.
const installPatience = 5 * time.Second

// installResult is an installation as clients see it.
type installResult struct {
	SandboxID string            `json:"sandbox_id"`
	Packages  []string          `json:"packages"`
	Status    core.InstallState `json:"status"`
	Message   string            `json:"message"`
	Elapsed   float64           `json:"elapsed_seconds"`
	Log       string            `json:"install_log,omitempty"`
}

func (s *Server) installPackage() tool {
	packages := param{
		name: "package_name", required: true, description: `a package, or a list of them, as PEP 508 requirements: "pandas" or ["pandas", "requests>=2"]`,
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "minItems": 1},
		}},
	}
	return tool{
		name: "install_package_in_sandbox", title: "Install packages into a sandbox",
		description: fmt.Sprintf(`Installs Python packages into a sandbox that exists; its variables stay. It waits at most %g s: status "installing" says that the installation goes on, and check_package_installation_status tells how it ends.
Example: {"sandbox_id": "mine", "package_name": "pandas"}`, installPatience.Seconds()),
		params: []param{sandboxParam("the sandbox's id or name").mandatory(), packages},
		output: installSchema(), openWorld: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			sandbox, err := c.optional("sandbox_id")
			if err != nil {
				return nil, err
			}
			names, err := c.texts("package_name")
			if err != nil {
				return nil, err
			}
			begun, err := s.cases.BeginInstall(ctx, c.owner, sandbox, names, installPatience)
			if err != nil {
				return nil, err
			}
			if begun.State == core.InstallFailed {
				return nil, begun.Failure.Err()
			}
			return installAnswer(sandbox, begun), nil
		},
	}
}

func installSchema() map[string]any {
	text := textSchema
	return map[string]any{"type": "object", "properties": map[string]any{
		"sandbox_id": text("as it was named in the call"), "message": text("what to do next, or why it failed"),
		"packages":        map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		"status":          map[string]any{"type": "string", "enum": []core.InstallState{core.InstallUnderWay, core.InstallDone, core.InstallFailed}},
		"elapsed_seconds": map[string]any{"type": "number"},
		"install_log":     text("the installer's last lines so far"),
	}}
}

func (s *Server) installStatus() tool {
	return tool{
		name: "check_package_installation_status", title: "See how an installation goes",
		description: "Tells whether a package that install_package_in_sandbox began to install is there: its status is installing, installed or failed. It is known also after the server was restarted.",
		params: []param{
			sandboxParam("the sandbox's id or name").mandatory(),
			textParam("package_name", "the package, or one of those that were named together").mandatory(),
		},
		output: installSchema(), readOnly: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			sandbox, err := c.optional("sandbox_id")
			if err != nil {
				return nil, err
			}
			name, err := c.optional("package_name")
			if err != nil {
				return nil, err
			}
			i, err := s.cases.InstallStatus(ctx, c.owner, sandbox, name)
			if err != nil {
				return nil, err
			}
			return installAnswer(sandbox, i), nil
		},
	}
}

func installAnswer(sandbox string, i core.PackageInstall) *mcp.CallToolResult {
	result := installResult{
		SandboxID: sandbox, Packages: append([]string{}, i.Packages...), Status: i.State,
		Log: core.PlainText(i.Log), Elapsed: i.Elapsed(time.Now()).Seconds(),
	}
	what := strings.Join(i.Packages, ", ")
	switch i.State {
	case core.InstallUnderWay:
		result.Message = what + " is being installed; ask again with check_package_installation_status"
	case core.InstallDone:
		result.Message = what + " is installed"
	case core.InstallFailed:
		result.Message = strings.TrimSpace(i.Failure.Message + "\n" + i.Failure.Hint)
	}
	text := fmt.Sprintf("%s: %s (%.1f s)", result.Status, result.Message, result.Elapsed)
	if i.State == core.InstallUnderWay && result.Log != "" {
		text += "\n\n" + result.Log
	}
	return structuredResult(text, result)
}
