//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/fetch"
	"github.com/boxwright/boxwright/ports/execution"
)

// Plugin makes backends. Its zero value works.
type Plugin struct {
	Version string // of the plugin executable
}

// Backend makes boxes on one Podman service. It finds the service at the first call.
type Backend struct {
	version  string
	server   string
	settings Settings
	finder   *finder
	agents   *agentfile.Files
	pulls    fetch.Group
	work     sync.WaitGroup // what goes on in the background
}

var _ execution.Backend = (*Backend)(nil)

// Open implements sdk.Open.
func (p Plugin) Open(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
	settings, err := decodeSettings(cfg.Settings)
	if err != nil {
		return nil, err
	}
	return newBackend(p.Version, cfg, newFinder(settings, machine())), nil
}

func newBackend(version string, cfg sdk.Config, f *finder) *Backend {
	return &Backend{version: version, server: cfg.Server, settings: f.settings, finder: f, agents: agentfile.New(cfg.Agents)}
}

// Close waits for what goes on in the background: removals of what a cancelled call left. Then it
// closes the connections that are left.
func (b *Backend) Close() error {
	b.work.Wait()
	if e := b.finder.Current(); e != nil {
		e.api.Client.CloseIdleConnections()
	}
	return nil
}

// Info implements execution.Backend.
func (b *Backend) Info(ctx context.Context) (core.Info, error) {
	before := b.finder.Current()
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Info{}, err
	}
	now, err := e.since(ctx, before)
	if err != nil {
		return core.Info{}, err
	}
	return core.Info{
		Name:          "podman",
		Version:       b.version,
		Engine:        engineName(now, b.settings.Runtime),
		EngineVersion: now.version,
		Platform:      now.platform(),
		Limits:        now.limits,
		Warnings:      now.warnings,
	}, nil
}

// engineName names the runtime too, if it is not the engine's own choice.
func engineName(f facts, ociRuntime string) string {
	name := "Podman"
	if f.rootless {
		name += " (rootless)"
	}
	if ociRuntime != "" {
		name += " with the runtime " + ociRuntime
	}
	return name
}
