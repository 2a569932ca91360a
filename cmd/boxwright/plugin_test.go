package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest/mutants"
)

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

var _ = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata/plugin, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "..", "testdata", "plugin", name)
	if updating() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("it is not %s; run with -update and review the diff. It is:\n%s", path, got)
	}
}

// build makes an executable of a package of this module.
func build(t *testing.T, pkg, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts plugins")
	}
	path := filepath.Join(t.TempDir(), name)
	daemontest.Program(t, path, pkg)
	return path
}

// realAgents is a folder with the real agent.
func realAgents(t *testing.T) string {
	t.Helper()
	return filepath.Dir(build(t, "../boxwright-agent", "boxwright-agent-linux-"+runtime.GOARCH))
}

// fakeAgents is a folder with a file that no fake box needs.
func fakeAgents(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "boxwright-agent-linux-"+runtime.GOARCH), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// verify runs the command, and returns its output and what the process would end with.
func verify(ctx context.Context, args ...string) (out string, code int, err error) {
	var buf bytes.Buffer
	c := command()
	c.SetOut(&buf)
	c.SetErr(io.Discard)
	c.SetArgs(append([]string{"plugin", "verify"}, args...))
	if err = c.ExecuteContext(ctx); err != nil {
		code = exitCode(err)
	}
	return buf.String(), code, err
}

// brokenIn lists the checks that a report in JSON calls broken.
func brokenIn(t *testing.T, out string) []string {
	t.Helper()
	var v verification
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if len(v.Findings) != len(executiontest.Checks()) || v.Kept+v.Broken+v.NotClaimed != len(v.Findings) {
		t.Errorf("it counts %d kept, %d broken, %d not claimed of %d", v.Kept, v.Broken, v.NotClaimed, len(v.Findings))
	}
	names := []string{}
	for _, f := range v.Findings {
		if f.Verdict == broken {
			names = append(names, f.Check)
		}
	}
	return names
}

// notVerifiable are the sentences that only a test of the author's can check.
func notVerifiable() []string {
	return []string{
		"image/not-fetched", "image/always", "image/progress", "create/all-or-nothing",
		"destroy/foreign", "volume/foreign", "common/unavailable",
	}
}

// mended are the sentences that the SDK keeps, or the host's side of it, whatever the backend behind it does.
func mended() []string {
	return []string{"create/cancelled", "dial/ctx", "dial/unknown", "dial/close", "common/ctx"}
}

func TestVerifyNamesExactlyTheBrokenSentence(t *testing.T) {
	t.Parallel()
	plugin, agents := build(t, "./testdata/broken", "boxwright-backend-broken"), fakeAgents(t)
	places := make(chan struct{}, 16) // most of the time they wait
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(mutants.All())) {
		want := []string{name}
		if slices.Contains(slices.Concat(notVerifiable(), mended()), name) {
			want = []string{}
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			out, code, err := verify(t.Context(), plugin, "--agents", agents, "--json", "--missing-image", "not/there:1",
				"--settings", `{"mutant": "`+name+`", "weak": "cpu"}`)
			if got := brokenIn(t, out); !slices.Equal(got, want) || code != len(want) {
				t.Errorf("%s: it calls %q broken and ends with %d, %v\n%s", name, got, code, err, out)
			}
		})
	}
	all.Wait()
}

func TestVerifyTable(t *testing.T) {
	t.Parallel()
	plugin, agents := build(t, "./testdata/broken", "boxwright-backend-broken"), fakeAgents(t)
	out, code, err := verify(t.Context(), plugin, "--agents", agents, "--settings", `{"mutant": "destroy/unknown"}`)
	if code != exitBroken || err == nil {
		t.Fatalf("it ends with %d, %v", code, err)
	}
	golden(t, "verify.txt", out)
	golden(t, "verify-error.txt", err.Error()+"\n")
}

func TestVerifyReport(t *testing.T) {
	t.Parallel()
	plugin, agents := build(t, "./testdata/broken", "boxwright-backend-broken"), fakeAgents(t)
	out, code, err := verify(t.Context(), plugin, "--agents", agents, "--json", "--settings", `{"mutant": "volume/in-use"}`)
	if code != exitBroken {
		t.Errorf("it ends with %d, %v", code, err)
	}
	golden(t, "verify.json", strings.ReplaceAll(out, filepath.Dir(plugin), "DIR"))
}

func TestVerifyThatCannotBegin(t *testing.T) {
	plugin, agents := build(t, "./testdata/broken", "boxwright-backend-broken"), fakeAgents(t)
	for want, args := range map[string][]string{
		"there is no file":      {"/nowhere/plugin", "--agents", agents},
		"is not executable":     {"/etc/passwd", "--agents", agents},
		"stopped before it was": {"/bin/true", "--agents", agents},
		"there is no image":     {plugin, "--agents", agents, "--image", "not/there:1"},
		`no key "x"`:            {plugin, "--agents", agents, "--settings", `{"x": 1}`},
		"cannot be read":        {plugin, "--agents", agents, "--settings", "/nowhere/settings.yaml"},
		"boxwright-agent-linux": {plugin, "--agents", t.TempDir()},
		"needs the path of one": {},
	} {
		_, code, err := verify(t.Context(), args...)
		if code != exitNotVerified || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q ends with %d, %v", args, code, err)
		}
	}
}

// TestVerifyInterrupted ends early, and says what it did not reach.
func TestVerifyInterrupted(t *testing.T) {
	t.Parallel()
	plugin, agents := build(t, "./testdata/broken", "boxwright-backend-broken"), fakeAgents(t)
	_, code, err := verify(t.Context(), plugin, "--agents", agents, "--timeout", "2s")
	if code != exitNotVerified || core.KindOf(errors.Unwrap(err)) != core.ErrTimeout {
		t.Errorf("too little time: it ends with %d, %v", code, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	context.AfterFunc(ctx, stop)
	out, code, err := verify(stopped, plugin, "--agents", agents)
	if code != exitNotVerified || core.KindOf(errors.Unwrap(err)) != core.ErrCancelled || !strings.Contains(out, "not reached") {
		t.Errorf("interrupted: it ends with %d, %v\n%s", code, err, out)
	}
}

// required reports whether a test of what must not be skipped.
func required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), name)
}

// TestVerifyThePluginInPython: a backend need not be written in Go.
func TestVerifyThePluginInPython(t *testing.T) {
	t.Parallel()
	plugin := os.Getenv("BOXWRIGHT_PYTHON_PLUGIN")
	if plugin == "" {
		if required("python-plugin") {
			t.Fatal("BOXWRIGHT_PYTHON_PLUGIN is not set; hack/python-plugin.sh prints it")
		}
		t.Skip("BOXWRIGHT_PYTHON_PLUGIN is not set; hack/python-plugin.sh prints it")
	}
	out, code, err := verify(t.Context(), plugin, "--agents", realAgents(t))
	if code != 0 {
		t.Errorf("it ends with %d, %v\n%s", code, err, out)
	}
}

// withoutSettings takes away the variables that tests are led by: the program takes them for settings.
func withoutSettings(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BOXWRIGHT_") {
			t.Setenv(name, value) // it is put back at the test's end
			os.Unsetenv(name)
		}
	}
}

func TestList(t *testing.T) {
	withoutSettings(t)
	plugin := build(t, "./testdata/broken", "boxwright-backend-fake")
	folder := filepath.Dir(plugin)
	for name, mode := range map[string]os.FileMode{"boxwright-backend-plain": 0o644, "other": 0o755} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\nexit 3\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	text := "backends:\n  elsewhere:\n    path: " + filepath.Join(folder, "other") + "\n  fake:\n    settings:\n      weak: cpu\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string][]string{"list.txt": nil, "list.json": {"--json"}} {
		var buf bytes.Buffer
		c := command()
		c.SetOut(&buf)
		c.SetArgs(append([]string{"plugin", "list", "--dir", folder, "--config", settings}, more...))
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		golden(t, name, strings.ReplaceAll(buf.String(), folder, "DIR"))
	}
}

// TestFindPlugins: what is listed is what the server would start.
func TestFindPlugins(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"docker", "extra"} {
		if err := os.WriteFile(filepath.Join(folder, "boxwright-backend-"+name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := config.Config{Backends: map[string]config.Backend{
		"docker":   {Plugin: "extra", Settings: map[string]any{"runtime": "runsc"}, Env: []string{"A=b"}},
		"pinned":   {Path: "/opt/x", SHA256: "ab"},
		"nowhere":  {},
		"of extra": {Plugin: "extra"},
	}}
	found, err := findPlugins(folder, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range found {
		got = append(got, strings.Join([]string{p.Name, strings.TrimPrefix(p.Path, folder), p.SHA256, string(p.Settings), strings.Join(p.EnvAllow, " ")}, "|"))
	}
	want := []string{
		`docker|/boxwright-backend-extra||{"runtime":"runsc"}|PATH HOME A=b`,
		"extra|/boxwright-backend-extra|||",
		"nowhere|/boxwright-backend-nowhere|||",
		"of extra|/boxwright-backend-extra|||",
		"pinned|/opt/x|ab||",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	c.Backends["nowhere"] = config.Backend{Settings: map[string]any{"size": math.Inf(1)}}
	if _, err := findPlugins(folder, c); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), "backends.nowhere.settings") {
		t.Errorf("settings that no plugin can get: %v", err)
	}
}

// TestWhatVerifyingComesTo: what is known to be broken counts, also if the time was too short for the rest.
func TestWhatVerifyingComesTo(t *testing.T) {
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	left := core.Errorf(core.ErrUnavailable, "no")
	for name, c := range map[string]struct {
		broken, notReached int
		left               error
		code               int
		want               string
	}{
		"all is well":            {},
		"something is broken":    {1, 0, nil, exitBroken, "mine does not keep 1 of the 4 sentences"},
		"too little time":        {0, 2, nil, exitNotVerified, "verifying took too long"},
		"both":                   {1, 2, nil, exitBroken, "mine does not keep 1 of the 4 sentences; 2 were not reached"},
		"something is left":      {0, 0, left, exitBroken, "what was made could not be removed"},
		"something else is left": {0, 1, left, exitNotVerified, "verifying took too long"},
	} {
		v := &verification{Name: "mine", Findings: make([]finding, 4), Broken: c.broken, NotReached: c.notReached}
		err, code := v.outcome(ended, c.left), 0
		if err != nil {
			code = exitCode(err)
		}
		if code != c.code || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: it ends with %d, %v", name, code, err)
		}
	}
}
