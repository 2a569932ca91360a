package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// packageCases are use cases that know of packages only.
type packageCases struct {
	UseCases
	packages []core.Package
	install  core.PackageInstall
	err      error
	asked    []string
	waited   time.Duration
}

func (p *packageCases) SearchPackages(_ context.Context, owner, query string) ([]core.Package, error) {
	p.asked = []string{owner, query}
	return p.packages, p.err
}

func (p *packageCases) BeginInstall(_ context.Context, owner, sandbox string, packages []string, wait time.Duration) (core.PackageInstall, error) {
	p.asked, p.waited = append([]string{owner, sandbox}, packages...), wait
	return p.install, p.err
}

func (p *packageCases) InstallStatus(_ context.Context, owner, sandbox, name string) (core.PackageInstall, error) {
	p.asked = []string{owner, sandbox, name}
	return p.install, p.err
}

func (p *packageCases) Inspect(context.Context, string, string) ([]core.Variable, error) {
	return nil, nil
}

func (p *packageCases) Session(context.Context, string, string) (core.Session, error) {
	return core.Session{Requirements: []string{"six"}}, nil
}

// callTool calls a tool as a client does, and returns its answer's text and structured content.
func (p *packageCases) callTool(t *testing.T, name, arguments string) (text string, structured map[string]any, isError bool) {
	t.Helper()
	s := New(p, Options{Tenant: "local", Log: slog.New(slog.DiscardHandler)})
	request := mcp.CallToolRequest{}
	request.Params.Name = name
	if err := json.Unmarshal([]byte(arguments), &request.Params.Arguments); err != nil {
		t.Fatal(err)
	}
	result, err := s.guard(s.GetTool(name).Handler)(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil || json.Unmarshal(raw, &structured) != nil {
		t.Fatalf("%s, %v", raw, err)
	}
	return result.Content[0].(mcp.TextContent).Text, structured, result.IsError
}

func TestSearchTool(t *testing.T) {
	p := &packageCases{packages: []core.Package{
		{Name: "Tool", Summary: "Does things", Versions: []string{"1.2", "1.1", "1.0"}, RequiresPython: ">=3.8"}, {Name: "bare"},
	}}
	text, structured, _ := p.callTool(t, "search_pypi_packages", `{"query": "tool"}`)
	if text != "- Tool 1.2: Does things (Python >=3.8); before: 1.1, 1.0\n- bare" || !slices.Equal(p.asked, []string{"local", "tool"}) {
		t.Errorf("got %q for %q", text, p.asked)
	}
	raw, _ := json.Marshal(structured)
	if want := `{"packages":[{"name":"Tool","requires_python":"\u003e=3.8","summary":"Does things","version":"1.2","versions":["1.2","1.1","1.0"]},{"name":"bare","versions":[]}]}`; string(raw) != want {
		t.Errorf("got %s", raw)
	}
	p.err = core.Errorf(core.ErrUnavailable, "the package index cannot be reached").WithHint("the operator checks the network")
	if text, _, isError := p.callTool(t, "search_pypi_packages", `{"query": "tool"}`); !isError || text != "the package index cannot be reached\nthe operator checks the network" {
		t.Errorf("got %q, %v", text, isError)
	}
}

func TestInstallTool(t *testing.T) {
	began := time.Unix(1e9, 0)
	p := &packageCases{install: core.PackageInstall{Packages: []string{"idna", "six"}, State: core.InstallDone, Started: began, Ended: began.Add(1500 * time.Millisecond)}}
	for _, named := range []string{`"six"`, `["six"]`, `"[\"six\"]"`} {
		text, structured, isError := p.callTool(t, "install_package_in_sandbox", `{"container_id": "mine", "package_name": `+named+`}`)
		if text != "installed: idna, six is installed (1.5 s)" || structured["status"] != "installed" || structured["elapsed_seconds"] != 1.5 || isError {
			t.Errorf("%s: got %q, %v", named, text, structured)
		}
		if !slices.Equal(p.asked, []string{"local", "mine", "six"}) || p.waited != 5*time.Second {
			t.Errorf("%s: asked %q, waits %s", named, p.asked, p.waited)
		}
	}
	p.install.State, p.install.Log, p.install.Started = core.InstallUnderWay, "downloading\x1b[31m", time.Now()
	for tool, argument := range map[string]string{"install_package_in_sandbox": `["six", "idna"]`, "check_package_installation_status": `"six"`} {
		text, structured, isError := p.callTool(t, tool, `{"sandbox_id": "mine", "package_name": `+argument+`}`)
		if structured["status"] != "installing" || isError || structured["install_log"] != "downloading" || !strings.HasSuffix(text, "\n\ndownloading") || !strings.Contains(text, "check_package_installation_status") {
			t.Errorf("%s: got %q, %v", tool, text, structured)
		}
	}
	p.install.State, p.install.Failure = core.InstallFailed, core.Failure{Kind: core.ErrDependency, Message: "it does not exist", Hint: "check the spelling"}
	if text, _, isError := p.callTool(t, "install_package_in_sandbox", `{"sandbox_id": "mine", "package_name": "six"}`); !isError || text != "it does not exist\ncheck the spelling" {
		t.Errorf("a failure: got %q, %v", text, isError)
	}
	text, structured, isError := p.callTool(t, "check_package_installation_status", `{"sandbox_id": "mine", "package_name": "six"}`)
	if isError || structured["status"] != "failed" || structured["message"] != "it does not exist\ncheck the spelling" || !strings.HasPrefix(text, "failed: it does not exist") {
		t.Errorf("the status of a failure: got %q, %v", text, structured)
	}
}

func TestInspectListsPackages(t *testing.T) {
	text, structured, _ := (&packageCases{}).callTool(t, "sandbox_inspect", `{"sandbox_id": "mine"}`)
	if raw, _ := json.Marshal(structured); text != "There are no variables.\npackages: six" || string(raw) != `{"cut":false,"packages":["six"],"variables":[]}` {
		t.Errorf("got %q, %s", text, raw)
	}
}

func TestRecordTellsOfMissingModules(t *testing.T) {
	result := toolResult(core.Record{Status: core.StatusFailed, ExitCode: 1, Hint: "run it again", AutoInstalled: []string{"six", "idna"}}, "")
	text := result.Content[0].(mcp.TextContent).Text
	raw, _ := json.Marshal(result.StructuredContent)
	for _, want := range []string{"The code lacked six, idna. It was run again from the start", "hint:\nrun it again"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if !strings.Contains(string(raw), `"auto_installed":["six","idna"],"hint":"run it again"`) {
		t.Errorf("got %s", raw)
	}
}

func TestAutoInstallArgument(t *testing.T) {
	if r, err := parse(t, `{"code":"x","auto_install":true}`); err != nil || !r.AutoInstall {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := parse(t, `{"code":"x"}`); err != nil || r.AutoInstall {
		t.Errorf("by default: %+v, %v", r, err)
	}
}
