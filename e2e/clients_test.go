package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPythonClients: the official client in both of its versions. Its scripts assert what they
// get; here counts that they end well, without a traceback, and leave nothing.
func TestPythonClients(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	require(t, "clients")
	for name, python := range map[string]string{
		"mcp1": os.Getenv("BOXWRIGHT_CLIENT_MCP1"),
		"mcp2": os.Getenv("BOXWRIGHT_CLIENT_MCP2"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := newState(t)
			out, errors := runClient(t, state, python, append([]string{filepath.Join("clients", name+".py")}, serverCommand(t)...)...)
			if out != "all well\n" || strings.Contains(errors, "Traceback") {
				t.Errorf("said %q\n%s", out, errors)
			}
			state.awaitNoBoxes(t)
		})
	}
}

// TestInspector: the inspector's command line finds nothing wrong with the schemas, and calls.
func TestInspector(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	require(t, "clients")
	t.Parallel()
	state := newState(t)
	inspect := func(more ...string) (string, string) {
		// It takes --config for its own, hands nothing of its own environment on, and wants values that are not empty.
		config := settingsFile(t, here().settings(t, "log: {level: warn}\n"))
		args := append(append([]string{"--cli"}, here().Program(filepath.Join(programs, "boxwright"), "serve").Args...), more...)
		for _, entry := range append(here().Environment(here().folder(t)), "BOXWRIGHT_STORAGE_DIR="+state.dir, "BOXWRIGHT_CONFIG="+config) {
			if !strings.HasSuffix(entry, "=") {
				args = append(args, "-e", entry)
			}
		}
		return runClient(t, state, os.Getenv("BOXWRIGHT_INSPECTOR"), args...)
	}
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
	state.awaitNoBoxes(t)
}

func serverCommand(t *testing.T) []string {
	t.Helper()
	config := settingsFile(t, here().settings(t, "log: {level: warn}\n"))
	return here().Program(filepath.Join(programs, "boxwright"), "serve", "--config", config).Args
}

// runClient runs a client to its end, which must be a good one.
func runClient(t *testing.T, s *state, name string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(here().Environment(here().folder(t)), "BOXWRIGHT_STORAGE_DIR="+s.dir)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %v: %v\n%s\n%s", name, args, err, &out, &errors)
	}
	return out.String(), errors.String()
}
