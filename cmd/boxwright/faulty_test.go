package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// TestMain lets the test's own executable be a plugin that misbehaves as the variable role says.
func TestMain(m *testing.M) {
	if os.Getenv(sdk.CookieKey) != "" {
		sdk.Serve(func(context.Context, sdk.Config) (execution.Backend, error) {
			return faultyBackend{Backend: executiontest.NewFake(), role: os.Getenv("ROLE")}, nil
		})
		return
	}
	os.Exit(m.Run())
}

type faultyBackend struct {
	execution.Backend
	role string
}

// EnsureImage takes any image, and floods the log if that is the fault.
func (f faultyBackend) EnsureImage(_ context.Context, ref string, _ core.PullPolicy, _ func(core.Progress)) (core.Image, error) {
	if f.role == "flood" {
		for range 20_000 {
			fmt.Fprintln(os.Stderr, "noise")
			fmt.Println("noise") //nolint:forbidigo // this is the fault
		}
	}
	return core.Image{Ref: ref, Digest: executiontest.FakeDigest(ref), Platform: "linux/amd64"}, nil
}

func (f faultyBackend) Create(ctx context.Context, _ core.BoxSpec) (core.Box, error) {
	if f.role == "dies" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if f.role == "hangs" {
		<-ctx.Done()
		return core.Box{}, ctx.Err()
	}
	return core.Box{}, core.Errorf(core.ErrExhausted, "it got this far")
}

// faulty is a backend with a fault, and what a run on it must say.
type faulty struct {
	section config.Backend
	kind    core.Kind
	want    string
}

func faultyBackends(t *testing.T, docker string) map[string]faulty {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := func(name, text string) config.Backend {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return config.Backend{Path: path}
	}
	role := func(name string) config.Backend { return config.Backend{Path: self, Env: []string{"ROLE=" + name}} }
	return map[string]faulty{
		"missing":  {config.Backend{}, core.ErrUnavailable, "the backend plugin missing was not found"},
		"checksum": {config.Backend{Path: docker, SHA256: strings.Repeat("0", 64)}, core.ErrInvalid, "is not the file whose checksum is configured"},
		"newer":    {script("newer", `echo "1|99|unix|/nowhere|grpc|"; exec sleep 60`), core.ErrUnavailable, "speaks another version of the protocol"},
		"garbage":  {script("garbage", "echo hello; exec sleep 60"), core.ErrUnavailable, "is not a backend plugin"},
		"silent":   {script("silent", "exec sleep 60"), core.ErrUnavailable, "the backend plugin silent"},
		"crash":    {script("crash", "echo no feet >&2; exit 7"), core.ErrUnavailable, "stopped before it was ready (exit status 7); it said: no feet"},
		"settings": {config.Backend{Path: docker, Settings: map[string]any{"hots": "x"}}, core.ErrInvalid, `has no key "hots"`},
		"dies":     {role("dies"), core.ErrUnavailable, "the backend plugin dies stopped while making a box"},
		"flood":    {role("flood"), core.ErrExhausted, "it got this far"},
	}
}

// TestFaultyBackendsLeaveDocker: each fault has its own message, and runs on Docker go on meanwhile,
// beside a backend of which every call hangs.
func TestFaultyBackendsLeaveDocker(t *testing.T) {
	docker := dockerPlugin(t)
	c := settingsFrom(t, "", map[string]string{"backend": "docker", "runs.max_concurrent": "1"})
	all := faultyBackends(t, docker)
	c.Backends = map[string]config.Backend{"docker": {Path: docker}}
	for name, f := range all {
		c.Backends[name] = f.section
	}
	hangs := faultyBackends(t, docker)["dies"].section
	hangs.Env = []string{"ROLE=hangs"}
	c.Backends["hangs"] = hangs
	s := wired(t, c)
	on := func(ctx context.Context, name string) (core.Record, error) {
		return s.service.RunOnce(ctx, core.Request{Code: "print('on', 'docker')", Backend: name, Tenant: localTenant}, nil)
	}
	requireDocker(t, func() error { _, err := on(t.Context(), "docker"); return err })

	var calls sync.WaitGroup
	hanging, release := context.WithCancel(t.Context())
	calls.Go(func() {
		if _, err := on(hanging, "hangs"); core.KindOf(err) != core.ErrCancelled {
			t.Errorf("hangs: got %v", err)
		}
	})
	var faults sync.WaitGroup
	for name, f := range all {
		faults.Go(func() {
			if _, err := on(t.Context(), name); core.KindOf(err) != f.kind || !strings.Contains(err.Error(), f.want) {
				t.Errorf("%s: got %s: %v", name, core.KindOf(err), err)
			}
		})
	}
	for range 3 {
		record, err := on(t.Context(), "docker")
		if err != nil || string(record.Stdout.Head) != "on docker\n" || record.Backend != "docker" {
			t.Errorf("on %q: %q, %v", record.Backend, record.Stdout.Head, err)
		}
	}
	faults.Wait()
	release()
	calls.Wait()
}

// TestAutoTakesTheNext: the first plugin runs, but finds no engine; the second does.
func TestAutoTakesTheNext(t *testing.T) {
	docker, dir := dockerPlugin(t), t.TempDir()
	tracked := filepath.Join(dir, "docker")
	if err := os.WriteFile(tracked, []byte("#!/bin/sh\necho $$ >"+dir+"/pid\nexec "+docker+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := settingsFrom(t, "", nil)
	c.Backends = map[string]config.Backend{
		"docker": {Path: tracked, Env: []string{"DOCKER_HOST=unix:///nowhere.sock"}},
		"podman": {Path: docker}, // a name is only a name
	}
	var log bytes.Buffer
	t.Cleanup(func() { // once the server has closed
		if want := "using podman: docker does not work here (no Docker engine answers; tried unix:///nowhere.sock"; !t.Skipped() && !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	})
	s := wiredTo(t, c, &log)
	run := func() (core.Record, error) {
		return s.service.RunOnce(t.Context(), core.Request{Code: "print(1)", Tenant: localTenant}, nil)
	}
	requireDocker(t, func() error { _, err := run(); return err })
	if record, err := run(); err != nil || record.Backend != "podman" {
		t.Errorf("on %q, %v", record.Backend, err)
	}
	awaitEnd(t, filepath.Join(dir, "pid"))
}

// awaitEnd waits until the process whose id is in the file is gone.
func awaitEnd(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d, a plugin that was not chosen, is still there", pid)
		}
	}
}

// TestSeveralBackendsOfTheExample starts configs/several-backends.yaml, without asking a registry.
func TestSeveralBackendsOfTheExample(t *testing.T) {
	docker := dockerPlugin(t)
	c := settingsFrom(t, "../../configs/several-backends.yaml", map[string]string{"images.pull": "never"})
	for name, section := range map[string]config.Backend{"docker": {}, "docker-gvisor": c.Backends["docker-gvisor"]} {
		section.Path = docker // the test's executable has none beside it
		c.Backends[name] = section
	}
	s := wired(t, c)
	run := func(r core.Request) (core.Record, error) {
		r.Code, r.Tenant = "print(1)", localTenant
		return s.service.RunOnce(t.Context(), r, nil)
	}
	requireDocker(t, func() error { _, err := run(core.Request{}); return err })
	record, err := run(core.Request{})
	if err != nil || record.Backend != "docker" {
		t.Errorf("by default on %q, %v", record.Backend, err)
	}
	if _, err := run(core.Request{Image: "untrusted/tool:1", Backend: "docker"}); core.KindOf(err) != core.ErrDenied {
		t.Errorf("against the route: %v", err)
	}
	record, err = run(core.Request{Backend: "docker-gvisor"})
	if core.KindOf(err) == core.ErrUnsupported && !isRequired("docker-runsc") {
		t.Skip(err) // Docker does not know the runtime
	}
	if err != nil || record.Backend != "docker-gvisor" || string(record.Stdout.Head) != "1\n" {
		t.Errorf("by choice on %q, %v", record.Backend, err)
	}
	if _, err = run(core.Request{Image: "untrusted/tool:1"}); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("routed, but without the image: %v", err)
	}
}

// isRequired reports whether a test must not be skipped for want of this.
func isRequired(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), what)
}

// wired is the program with these settings, closed at the end of the test.
func wired(t *testing.T, c config.Config) *system { return wiredTo(t, c, io.Discard) }

// wiredTo is the same with a log, to be read when the program is closed.
func wiredTo(t *testing.T, c config.Config, log io.Writer) *system {
	t.Helper()
	s, err := wire(c, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dockerPlugin builds the plugin, and the agent where the server looks for it.
func dockerPlugin(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs an engine")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), "boxwright-backend-docker")
	agent := filepath.Join(filepath.Dir(self), "boxwright-agent-linux-"+runtime.GOARCH)
	t.Cleanup(func() { _ = os.Remove(agent) })
	for path, pkg := range map[string]string{plugin: "../boxwright-backend-docker", agent: "../boxwright-agent"} {
		daemontest.Program(t, path, pkg)
	}
	return plugin
}

// requireDocker skips the test where Docker is absent, unless it must not be.
func requireDocker(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	switch {
	case err == nil:
	case isRequired("docker"):
		t.Fatal(err)
	case core.KindOf(err) == core.ErrUnavailable || core.KindOf(err) == core.ErrNotFound:
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
