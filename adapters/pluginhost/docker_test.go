package pluginhost_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

const dockerImage = "boxwright-test/empty:1"

// dockerConfig builds the real plugin, and the stand-in for the agent that its tests use.
func dockerConfig(t *testing.T) pluginhost.Config {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs an engine")
	}
	dir := t.TempDir()
	build := func(name, pkg string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-o", path, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", pkg, err, out)
		}
		return path
	}
	plugin := build("boxwright-backend-docker", "../../cmd/boxwright-backend-docker")
	cfg := pluginhost.Config{
		Name: "docker", Path: plugin, Instance: "pluginhost-test", Server: "pluginhost-test",
		Agents: map[string]string{runtime.GOARCH: build("standin", "../../plugins/sdk/daemontest/testdata/standin")},
	}
	if _, err := start(t, cfg).EnsureImage(t.Context(), dockerImage, core.PullNever, nil); err != nil {
		if strings.Contains(os.Getenv("BOXWRIGHT_REQUIRE"), "docker") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return cfg
}

func TestDockerConformanceThroughTheExecutable(t *testing.T) {
	cfg := dockerConfig(t)
	executiontest.Run(t, func(t *testing.T) executiontest.Env {
		return dockerEnv(start(t, cfg))
	}, append(executiontest.RemoteSkips(), "image/missing", "list/stopped", "dial/stopped", "destroy/stopped")...)
}

func dockerEnv(p *pluginhost.Plugin) executiontest.Env {
	env := executiontest.RemoteFakeEnv(p)
	env.Image = dockerImage
	env.Hooks.MissingImage = ""
	env.Hooks.Stop = nil // plugins/docker waits for the engine to notice
	return env
}

// TestBoxesOutliveThePlugin kills the plugin and finds its boxes again.
func TestBoxesOutliveThePlugin(t *testing.T) {
	p := start(t, dockerConfig(t))
	env := dockerEnv(p)
	t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
	spec := spec()
	spec.Image, spec.Labels.Instance = dockerImage, env.Instance
	box, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.PID(), syscall.SIGKILL)
	becomes(t, func() error { _, err := p.Info(t.Context()); return err })
	have, err := p.List(t.Context(), env.Instance)
	if err != nil || len(have.Boxes) != 1 || have.Boxes[0].ID != box.ID || have.Boxes[0].Labels != spec.Labels {
		t.Fatalf("got %+v, %v", have, err)
	}
	stream, err := p.Dial(t.Context(), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := env.Hooks.Answers(t.Context(), stream); err != nil {
		t.Error(err)
	}
	if err := p.Destroy(t.Context(), box.ID); err != nil {
		t.Error(err)
	}
}
