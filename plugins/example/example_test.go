package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func TestMain(m *testing.M) {
	if os.Getenv(sdk.CookieKey) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// isRequired reports whether BOXWRIGHT_REQUIRE forbids to skip what needs bubblewrap.
func isRequired() bool {
	return slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), "bubblewrap")
}

// needBubblewrap skips where there is none, unless that is forbidden.
func needBubblewrap(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it makes boxes")
	}
	out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput()
	if err == nil {
		return
	}
	if isRequired() {
		t.Fatalf("bubblewrap makes no boxes: %v: %s", err, out)
	}
	t.Skipf("bubblewrap makes no boxes: %v: %s", err, out)
}

// spawn starts the plugin for as long as the test lasts.
func (s stage) spawn(t *testing.T, state string) *sdk.Client {
	t.Helper()
	return sdktest.Spawn(t, s.plugin, s.options(state))
}

func TestConformance(t *testing.T) {
	s := newStage(t)
	executiontest.Run(t, func(t *testing.T) executiontest.Env {
		env, err := sdktest.Env(t.Context(), s.spawn(t, s.state(t)), core.ImageHost, executiontest.NewInstance())
		if err != nil {
			t.Fatal(err)
		}
		env.Hooks.MissingImage = "registry.example/missing:1"
		return env
	}, "image/not-fetched", "image/always", "image/progress", "create/all-or-nothing", "destroy/foreign", "volume/foreign", "common/unavailable")
}

// TestBoxesOutliveThePlugin: the next process finds what the last one made.
func TestBoxesOutliveThePlugin(t *testing.T) {
	s := newStage(t)
	state := s.state(t)
	spec := core.BoxSpec{
		Image: core.ImageHost, Limits: core.DefaultLimits(), Unenforced: core.UnenforcedWarn,
		Labels: core.Labels{Instance: executiontest.NewInstance(), Expires: time.Now().Add(5 * time.Minute).UTC()},
	}
	first, stop, err := sdktest.Launch(t.Context(), s.plugin, s.options(state))
	if err != nil {
		t.Fatal(err)
	}
	box, err := first.Create(t.Context(), spec)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	second := s.spawn(t, state)
	t.Cleanup(func() { second.Destroy(context.WithoutCancel(t.Context()), box.ID) })
	have, err := second.List(t.Context(), spec.Labels.Instance)
	if err != nil || len(have.Boxes) != 1 || have.Boxes[0].State != core.BoxRunning {
		t.Fatalf("it has %+v, %v", have, err)
	}
	env, err := sdktest.Env(t.Context(), second, core.ImageHost, spec.Labels.Instance)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := second.Dial(t.Context(), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := env.Hooks.Answers(t.Context(), stream); err != nil {
		t.Error(err)
	}
}

// TestSize keeps the example an example.
func TestSize(t *testing.T) {
	files, _ := filepath.Glob("*.go")
	lines := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") {
			lines += strings.Count(string(raw), "\n")
		}
	}
	if lines == 0 || lines >= 300 {
		t.Errorf("it has %d lines", lines)
	}
}

func TestSettingsAreStrict(t *testing.T) {
	_, err := open(t.Context(), sdk.Config{Settings: []byte(`{"sate": "/x"}`)})
	if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), `"sate"`) {
		t.Errorf("got %v", err)
	}
}
