package mcp

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// TestNamesOfTheSet: what is said names tools that the set has, by the names that it has for them.
func TestNamesOfTheSet(t *testing.T) {
	const missing = `there is no module "x": look for it with search_pypi_packages`
	for text, want := range map[string][3]string{ // default, python-code-sandbox, mcp-sandbox
		"":                {"", "", ""},
		"wait\nlist_runs": {"wait\nlist_runs", "", ""},
		"a\nrun_python":   {"a\nrun_python", "a\nrun_python", "a\nexecute_python_code"},
		"list_sandboxes tells which there are; sandbox_initialize makes one": {
			"list_sandboxes tells which there are; sandbox_initialize makes one", "sandbox_initialize makes one",
			"list_sandboxes tells which there are; create_sandbox makes one",
		},
		"list_runs tells which there are": {"list_runs tells which there are", "", ""},
		missing:                           {missing, missing, `there is no module "x"`},
		"A: run_python. B; list_runs tells; C": {
			"A: run_python. B; list_runs tells; C", "A: run_python. B; C", "A: execute_python_code. B; C",
		},
		"A; list_runs tells. B": {"A; list_runs tells. B", "A. B", "A. B"},
		"run_pythons and my_run_python: write_file, sandbox_exec": {
			"run_pythons and my_run_python: write_file, sandbox_exec", "run_pythons and my_run_python",
			"run_pythons and my_run_python: upload_file_to_sandbox, execute_terminal_command",
		},
	} {
		for i, set := range []string{SetDefault, SetEphemeral, SetMCPSandbox} {
			if got := New(nil, Options{Tools: set}).inSet(text); got != want[i] {
				t.Errorf("%q in %s is %q, want %q", text, set, got, want[i])
			}
		}
	}
}

// without has no session.
type without struct{ UseCases }

func (without) RunInSession(context.Context, string, core.Request, func(core.Progress)) (core.Record, error) {
	return core.Record{}, core.Errorf(core.ErrNotFound, "there is no sandbox").WithHint("sandbox_initialize makes one")
}

func (without) Sessions(context.Context, string) ([]core.SessionInfo, error) { return nil, nil }

// TestAnswersNameToolsOfTheSet: hints and sentences of answers do.
func TestAnswersNameToolsOfTheSet(t *testing.T) {
	s := New(without{}, Options{Tools: SetMCPSandbox, Log: slog.New(slog.DiscardHandler)})
	for tool, arguments := range map[string]any{
		"execute_python_code": map[string]any{"code": "1", "sandbox_id": "x"}, "list_sandboxes": map[string]any{},
	} {
		request := mcp.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = tool, arguments
		result, err := s.guard(s.GetTool(tool).Handler)(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Content[0].(mcp.TextContent).Text; !strings.Contains(text, "create_sandbox makes one") {
			t.Errorf("%s says %q", tool, text)
		}
	}
}
