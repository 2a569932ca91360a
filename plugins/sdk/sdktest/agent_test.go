package sdktest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func TestAgents(t *testing.T) {
	folder := t.TempDir()
	if _, err := Agents(folder); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("a folder without agents: %v", err)
	}
	for _, name := range []string{"boxwright", "boxwright-agent-linux-arm64", "boxwright-agent-linux-other"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "boxwright")
	if err := os.Symlink(filepath.Join(folder, "boxwright"), link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(link))
	for _, where := range []string{folder, ""} {
		got, err := Agents(where)
		if err != nil || len(got) != 1 || got["arm64"] != filepath.Join(folder, "boxwright-agent-linux-arm64") {
			t.Errorf("in %q: %v, %v", where, got, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Agents(""); core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
		t.Errorf("without boxwright in PATH: %v", err)
	}
}

func TestEnvOfAWeakEngine(t *testing.T) {
	fake := executiontest.NewFake()
	env, err := Env(t.Context(), fake, executiontest.FakeImage, "i")
	if err != nil || env.Hooks.Weak != nil {
		t.Errorf("an engine that holds every limit: %v", err)
	}
	fake.Weak = core.LimitPIDs
	if env, err = Env(t.Context(), fake, executiontest.FakeImage, "i"); err != nil {
		t.Fatal(err)
	}
	if b, limit, err := env.Hooks.Weak(t.Context()); b != fake || limit != core.LimitPIDs || err != nil {
		t.Errorf("it is %v, %s, %v", b, limit, err)
	}
}

// TestAgentThatLeaves: what is at the other end of a stream may be anything.
func TestAgentThatLeaves(t *testing.T) {
	for _, says := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		ours, theirs := net.Pipe()
		go func() {
			theirs.Read(make([]byte, 1))
			theirs.Write([]byte(says))
			theirs.Close()
		}()
		if err := answers(t.Context(), ours); err == nil {
			t.Errorf("one that says %q answers", says)
		}
	}
}
