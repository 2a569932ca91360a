package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPythonClientsOverHTTP: the clients of stdio, and FastMCP's, over both ways of HTTP. The server stays, so that
// what they leave under way has to be ended by it.
func TestPythonClientsOverHTTP(t *testing.T) {
	require(t, "engine")
	require(t, "clients")
	onePlace(t)
	for name, python := range map[string]string{
		"mcp1":     os.Getenv("BOXWRIGHT_CLIENT_MCP1"),
		"mcp2":     os.Getenv("BOXWRIGHT_CLIENT_MCP2"),
		"fastmcp4": os.Getenv("BOXWRIGHT_CLIENT_FASTMCP"),
	} {
		for _, path := range []string{"/mcp", "/sse"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				p := launch(t, setup{transport: overStreamable}, nil)
				p.endsWell(t, python, filepath.Join("clients", name+".py"), p.url(t)+path)
			})
		}
	}
}

// TestNpmClients: both lines of the official client for Node.js, the later one with and without the handshake of earlier
// revisions, over every transport.
func TestNpmClients(t *testing.T) {
	require(t, "engine")
	require(t, "clients")
	onePlace(t)
	node, script := os.Getenv("BOXWRIGHT_CLIENT_NPM"), filepath.Join("clients", "npm.cjs")
	for _, mode := range []string{"v1", "legacy", "auto"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			newState(t).endsWell(t, node, append([]string{script, mode}, serverCommand(t)...)...)
			p := launch(t, setup{transport: overStreamable}, nil)
			for _, path := range []string{"/mcp", "/sse"} {
				p.endsWell(t, node, script, mode, p.url(t)+path)
			}
		})
	}
}

// TestMCPRemote: a client that knows stdio alone, behind the bridge to HTTP, which shows a key.
func TestMCPRemote(t *testing.T) {
	require(t, "engine")
	require(t, "clients")
	onePlace(t)
	t.Parallel()
	p := launch(t, setup{transport: overStreamable, config: wantsKeys}, nil)
	p.endsWell(t, os.Getenv("BOXWRIGHT_CLIENT_MCP1"), filepath.Join("clients", "mcp1.py"), os.Getenv("BOXWRIGHT_CLIENT_REMOTE"),
		p.url(t)+"/mcp", "--allow-http", "--transport", "http-only", "--header", "Authorization: Bearer "+p.newKey(t, "ann"))
}

// TestInspectorOverHTTP: in each era of the protocol, and over SSE.
func TestInspectorOverHTTP(t *testing.T) {
	require(t, "engine")
	require(t, "clients")
	onePlace(t)
	t.Parallel()
	p := launch(t, setup{transport: overStreamable}, nil)
	for _, target := range [][]string{{"/mcp", "legacy"}, {"/mcp", "modern"}, {"/sse", "legacy"}} {
		inspects(t, func(more ...string) (string, string) {
			args := append([]string{"--cli", p.url(t) + target[0], "--protocol-era", target[1]}, more...)
			return runClient(t, p.state, os.Getenv("BOXWRIGHT_INSPECTOR"), args...)
		})
	}
	p.awaitNoBoxes(t)
}

// inspects has the inspector find nothing wrong with the schemas, and call.
func inspects(t *testing.T, inspect func(more ...string) (stdout, stderr string)) {
	t.Helper()
	listed, complaints := inspect("--method", "tools/list", "--strict")
	holds(t, listed, tool, "outputSchema")
	for line := range strings.Lines(complaints) {
		if !strings.HasPrefix(line, "time=") { // the server's own log
			t.Errorf("--strict complains: %s", line)
		}
	}
	called, _ := inspect("--method", "tools/call", "--tool-name", tool, "--tool-arg", "code=print('inspected')")
	var answer struct {
		StructuredContent result `json:"structuredContent"`
		IsError           bool   `json:"isError"`
	}
	if err := json.Unmarshal([]byte(called), &answer); err != nil || answer.IsError || answer.StructuredContent.Stdout != "inspected\n" {
		t.Errorf("%v: %s", err, called)
	}
}

// url is where a server over HTTP is.
func (p *process) url(t *testing.T) string {
	t.Helper()
	return "http://" + p.address(t)
}
