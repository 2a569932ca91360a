package e2e

import (
	"bytes"
	"context"
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
			newState(t).endsWell(t, python, append([]string{filepath.Join("clients", name+".py")}, serverCommand(t)...)...)
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
	inspects(t, inspect)
	state.awaitNoBoxes(t)
}

// serverCommand starts a server on stdio. Clients kill one that takes long to end: it has no boxes in a pool to remove.
func serverCommand(t *testing.T) []string {
	t.Helper()
	config := settingsFile(t, here().settings(t, "log: {level: warn}\npool: {enabled: false}\n"))
	return here().Program(filepath.Join(programs, "boxwright"), "serve", "--config", config).Args
}

// endsWell runs a client whose script asserts what it gets: it ends well, and leaves nothing.
func (s *state) endsWell(t *testing.T, name string, args ...string) {
	t.Helper()
	out, errors := runClient(t, s, name, args...)
	if out != "all well\n" || strings.Contains(errors, "Traceback") {
		t.Errorf("said %q\n%s", out, errors)
	}
	s.awaitNoBoxes(t)
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
