package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
)

func settingsFrom(t *testing.T, file string, flags map[string]string) config.Config {
	t.Helper()
	c, err := config.Load(config.Source{
		File: file, Explicit: file != "", Environ: []string{"HOME=" + t.TempDir()}, Flags: flags, PipConfigs: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPluginConfig(t *testing.T) {
	c := settingsFrom(t, "../../configs/several-backends.yaml", nil)
	c.Backends["pinned"] = config.Backend{Path: "/opt/x", SHA256: strings.Repeat("0", 64), Env: []string{"A=b"}}
	for name, want := range map[string]pluginhost.Config{
		"docker":        {Name: "docker", Plugin: "docker"},
		"docker-gvisor": {Name: "docker-gvisor", Plugin: "docker", Settings: []byte(`{"runtime":"runsc"}`)},
		"pinned": {
			Name: "pinned", Plugin: "pinned", Path: "/opt/x", SHA256: strings.Repeat("0", 64), EnvAllow: []string{"PATH", "HOME", "A=b"},
		},
	} {
		if got, err := pluginConfig(c, name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestWhatMayBeChosen(t *testing.T) {
	several := settingsFrom(t, "../../configs/several-backends.yaml", nil)
	for name, c := range map[string]struct {
		settings        config.Config
		prefer, choices []string
		known           []string
		routes          int
	}{
		"nothing set": {
			settings: settingsFrom(t, "", nil),
			prefer:   []string{"docker", "podman", "gvisor"}, known: []string{"docker", "gvisor", "podman"},
		},
		"named": {
			settings: settingsFrom(t, "", map[string]string{"backend": "kubernetes"}),
			prefer:   []string{"kubernetes"}, known: []string{"docker", "gvisor", "kubernetes", "podman"},
		},
		"several": {
			settings: several, routes: 1,
			prefer: []string{"docker"}, choices: []string{"docker", "docker-gvisor"},
			known: []string{"docker", "docker-gvisor", "gvisor", "podman"},
		},
	} {
		app := appSettings(c.settings)
		if got := c.settings.Preferred(); !slices.Equal(got, c.prefer) {
			t.Errorf("%s: the default is one of %q", name, got)
		}
		if !slices.Equal(app.Choices, c.choices) || len(app.Routes) != c.routes {
			t.Errorf("%s: clients choose from %q, routes are %v", name, app.Choices, app.Routes)
		}
		if got := c.settings.Known(); !slices.Equal(got, c.known) {
			t.Errorf("%s: known are %q", name, got)
		}
	}
}

// Wiring starts no engine and needs none: what is missing is told by the first run.
func TestWireWithoutAnyPlugin(t *testing.T) {
	standInAgent(t)
	c := settingsFrom(t, "", nil)
	s, err := wire(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.service.RunOnce(t.Context(), core.Request{Code: "1"}, nil)
	if core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("got %v", err)
	}
	for _, name := range config.AutoBackends() {
		if !strings.Contains(err.Error(), "- "+name+": it is not installed") {
			t.Errorf("%s is not told of: %v", name, err)
		}
	}
	if err := s.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// standInAgent puts a file where the server looks for its agent: beside this test's executable.
func standInAgent(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(self), "boxwright-agent-linux-"+runtime.GOARCH)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
}
