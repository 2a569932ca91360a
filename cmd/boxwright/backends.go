package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// newBackends makes the set of all backends that the settings know. None is started yet.
func newBackends(c config.Config, instance *disk.Instance, log *slog.Logger) (*app.Backends, error) {
	agents, err := findAgents()
	if err != nil {
		return nil, err
	}
	var sources []app.Source
	for _, name := range c.Known() {
		plugin, err := pluginConfig(c, name)
		if err != nil {
			return nil, err
		}
		plugin.Agents, plugin.Logger = agents, log
		plugin.Instance, plugin.Server = instance.ID, instance.Server
		sources = append(sources, app.Source{
			Name:      name,
			Installed: func() error { return pluginhost.Installed(plugin) },
			Open:      func() app.Plugin { return pluginhost.Open(plugin) },
		})
	}
	return app.NewBackends(sources, app.Preference{Names: c.Preferred(), Unenforced: c.Limits.Policy()}, log), nil
}

// pluginConfig is what the settings say of a backend's plugin.
func pluginConfig(c config.Config, name string) (pluginhost.Config, error) {
	section := c.Backends[name]
	plugin := pluginhost.Config{
		Name:     name,
		Plugin:   c.PluginOf(name),
		Path:     section.Path,
		SHA256:   section.SHA256,
		EnvAllow: pluginEnv(section.Env),
	}
	if section.Settings == nil {
		return plugin, nil
	}
	var err error
	if plugin.Settings, err = json.Marshal(section.Settings); err != nil {
		return plugin, core.Errorf(core.ErrInvalid, "backends.%s.settings cannot be passed on: %w", name, err)
	}
	return plugin, nil
}

// pluginEnv is the plugin's whole environment when the operator lists some; nil is the default.
func pluginEnv(listed []string) []string {
	if listed == nil {
		return nil
	}
	return append([]string{"PATH", "HOME"}, listed...)
}

// findAgents looks beside the server's own executable, where make build and packages put them.
func findAgents() (map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, core.Errorf(core.ErrInternal, "the server cannot find its own executable: %w", err)
	}
	agents := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(filepath.Dir(self), "boxwright-agent-linux-"+arch)
		if _, err := os.Stat(path); err == nil {
			agents[arch] = path
		}
	}
	if len(agents) == 0 {
		return nil, core.Errorf(core.ErrUnavailable, "there is no boxwright-agent-linux-* beside %s", self).
			WithHint("make build puts it there")
	}
	return agents, nil
}
