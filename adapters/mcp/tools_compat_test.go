package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// compatCases answers what the names of older programs lead to.
type compatCases struct {
	fileCases
	request core.Request
	record  core.Record
}

func (c *compatCases) RunInSession(_ context.Context, sandbox string, r core.Request, _ func(core.Progress)) (core.Record, error) {
	c.asked, c.request = sandbox, r
	return c.record, nil
}

func (c *compatCases) OpenSession(_ context.Context, r core.SessionRequest, _ func(core.Progress)) (core.Session, error) {
	c.asked = r.Name
	return core.Session{ID: "s1", Name: r.Name}, nil
}

func (c *compatCases) UploadFile(_ context.Context, r core.FileRequest, content io.Reader) error {
	text, err := io.ReadAll(content)
	c.asked = fmt.Sprintf("%v %q", r, text)
	return err
}

func namesIn(set string) (names []string) {
	s := testServer()
	s.options.Tools = set
	for _, t := range s.tools() {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return names
}

// TestSets: each set has its program's tools, by its names, and what long runs need.
func TestSets(t *testing.T) {
	for set, want := range map[string]string{
		SetEphemeral:  "cancel_run get_run read_output run_python run_python_ephemeral sandbox_exec sandbox_initialize sandbox_stop search_pypi_packages",
		SetMCPSandbox: "cancel_run check_package_installation_status create_sandbox execute_python_code execute_terminal_command get_run install_package_in_sandbox list_sandboxes read_output sandbox_stop upload_file_to_sandbox",
	} {
		if got := strings.Join(namesIn(set), " "); got != want {
			t.Errorf("%s has\n%s, want\n%s", set, got, want)
		}
	}
	if got := namesIn(SetDefault); !slices.Equal(got, namesIn("")) || slices.Contains(got, "create_sandbox") || !slices.Contains(got, "run_code") {
		t.Errorf("the default set has %q", got)
	}
}

// askCompat calls a tool of mcp-sandbox's set as a client does.
func askCompat(t *testing.T, cases UseCases, uploadFrom []string, name, arguments string) (*mcp.CallToolResult, error) {
	t.Helper()
	s := testServer()
	s.cases, s.options.UploadFrom = cases, uploadFrom
	for _, tool := range s.compatTools() {
		if tool.name == name {
			args, err := parseArguments(json.RawMessage(arguments), tool.params)
			if err != nil {
				return nil, err
			}
			return tool.handle(t.Context(), call{arguments: args, client: "c"})
		}
	}
	t.Fatalf("there is no tool %s", name)
	return nil, nil
}

// TestKeysOfResults: what scripts read of mcp-sandbox's results is there.
func TestKeysOfResults(t *testing.T) {
	cases := &compatCases{record: core.Record{Status: core.StatusOK, Files: []core.Artifact{
		{Name: "a.txt", URI: "boxwright://runs/r/a.txt", Location: "/files/a.txt"}, {Name: "b", URI: "boxwright://runs/r/b"},
	}}}
	for tool, arguments := range map[string]string{
		"execute_python_code": `{"sandbox_id":"x","code":"1"}`, "execute_terminal_command": `{"sandbox_id":"x","command":"ls | wc"}`,
	} {
		result, err := askCompat(t, cases, nil, tool, arguments)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(result.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"stdout":""`, `"stderr":""`, `"exit_code":0`, `"files":[{`, `"file_links":["/files/a.txt","boxwright://runs/r/b"]`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %s lacks %s", tool, text, want)
			}
		}
		if cases.asked != "x" {
			t.Errorf("%s ran in %q", tool, cases.asked)
		}
	}
	result, err := askCompat(t, cases, nil, "create_sandbox", `{"name":"n"}`)
	if err != nil {
		t.Fatal(err)
	}
	record, _ := result.StructuredContent.(map[string]any)
	if record["sandbox_id"] != "s1" || record["name"] != "n" || record["user_id"] != "local" || record["status"] != "created" {
		t.Errorf("created %v", record)
	}
	if _, err := askCompat(t, cases, nil, "execute_python_code", `{"code":"1"}`); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("without a sandbox: %v", err)
	}
}

func TestUploads(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for name, content := range map[string]string{filepath.Join(dir, "in.csv"): "a,b", outside: "secret"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	local := func(name string) string { return fmt.Sprintf(`{"sandbox_id":"x","local_file_path":%q}`, name) }
	for arguments, asked := range map[string]string{
		`{"sandbox_id":"x","file_name":"a.txt","content":"hi"}`:                                              `{x a.txt local c} "hi"`,
		`{"sandbox_id":"x","file_name":"a.txt","content":"AAE=","encoding":"base64","dest_path":"/work/d/"}`: `{x d/a.txt local c} "\x00\x01"`,
		`{"sandbox_id":"x","file_name":"a.txt","content":"","dest_path":"/app/results/d"}`:                   `{x d/a.txt local c} ""`,
		local(filepath.Join(dir, "in.csv")):                                                                  `{x in.csv local c} "a,b"`,
	} {
		cases := &compatCases{}
		if _, err := askCompat(t, cases, []string{dir}, "upload_file_to_sandbox", arguments); err != nil || cases.asked != asked {
			t.Errorf("%s: asked for %s, %v", arguments, cases.asked, err)
		}
	}
	for arguments, kind := range map[string]core.Kind{
		`{"sandbox_id":"x"}`:               core.ErrInvalid,
		`{"sandbox_id":"x","content":"a"}`: core.ErrInvalid,
		`{"sandbox_id":"x","content":"a","file_name":"a","local_file_path":"/a"}`: core.ErrInvalid,
		local(filepath.Join(dir, "none")):                                         core.ErrNotFound,
		local(dir):                                                                core.ErrInvalid,
		local(outside):                                                            core.ErrDenied,
		local(filepath.Join(dir, "link")):                                         core.ErrNotFound,
		local(dir + "/../" + filepath.Base(dir) + "x/secret"):                     core.ErrDenied,
		local("in.csv"):                                                           core.ErrDenied,
		local("/etc/passwd"):                                                      core.ErrDenied,
	} {
		cases := &compatCases{}
		if _, err := askCompat(t, cases, []string{dir}, "upload_file_to_sandbox", arguments); core.KindOf(err) != kind || cases.asked != "" {
			t.Errorf("%s: asked for %s, %v", arguments, cases.asked, err)
		}
	}
	if _, err := askCompat(t, &compatCases{}, nil, "upload_file_to_sandbox", local(filepath.Join(dir, "in.csv"))); core.KindOf(err) != core.ErrDenied {
		t.Errorf("with no folder listed: %v", err)
	}
}
