// Package docker is the backend on Docker Engine.
//
// A box is a container with a read-only root, without capabilities and without a network unless
// asked for; the agent is its PID 1 and comes from a volume. Everything goes through the
// engine's API, nothing through a path of this machine, so the engine may be elsewhere.
// The package is linked by the plugin executable only.
package docker

import (
	"context"
	"crypto/rand"
	"runtime"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/system"

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

// Backend makes boxes on one Docker engine. It finds the engine at the first call.
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
	return newBackend(p.Version, cfg, settings, newFinder(settings, machine())), nil
}

func newBackend(version string, cfg sdk.Config, settings Settings, f *finder) *Backend {
	return &Backend{version: version, server: cfg.Server, settings: settings, finder: f, agents: agentfile.New(cfg.Agents)}
}

// Close waits for what goes on in the background: removals of what a cancelled call left.
func (b *Backend) Close() error {
	b.work.Wait()
	return nil
}

// Info implements execution.Backend.
func (b *Backend) Info(ctx context.Context) (core.Info, error) {
	e, err := b.finder.engine(ctx)
	if err != nil {
		return core.Info{}, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	info, err := e.api.Info(ctx)
	if err != nil {
		return core.Info{}, e.fail(ctx, err, "the engine did not tell about itself")
	}
	now := factsOf(info, b.settings.Runtime)
	return core.Info{
		Name:          "docker",
		Version:       b.version,
		Engine:        "Docker Engine",
		EngineVersion: info.ServerVersion,
		Platform:      info.OSType + "/" + now.arch,
		Limits:        now.limits,
		Warnings:      warnings(info, e.host, b.settings.Runtime),
	}, nil
}

// factsOf reads what the engine can make hold.
func factsOf(info system.Info, ociRuntime string) facts {
	has := func(yes bool, how core.Enforcement) core.Enforcement {
		if yes {
			return how
		}
		return core.EnforcedNot
	}
	pids := has(info.PidsLimit, core.EnforcedCgroup)
	if isSandbox(ociRuntime) {
		// The cgroup counts the sandbox's own threads, not the processes inside.
		pids = core.EnforcedNot
	}
	return facts{
		info: info,
		arch: goArch(info.Architecture),
		limits: map[core.Limit]core.Enforcement{
			core.LimitMemory:  has(info.MemoryLimit, core.EnforcedCgroup),
			core.LimitCPU:     has(info.CPUCfsQuota, core.EnforcedCgroup),
			core.LimitPIDs:    pids,
			core.LimitDisk:    core.EnforcedSandbox,
			core.LimitNetwork: core.EnforcedSandbox,
		},
	}
}

// isSandbox recognises gVisor's runtime by its usual names.
func isSandbox(ociRuntime string) bool { return strings.HasPrefix(ociRuntime, "runsc") }

// goArch is the architecture as images and Go call it.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "":
		return runtime.GOARCH
	}
	return machine
}

// warnings are what an operator should know.
func warnings(info system.Info, host, ociRuntime string) []string {
	var list []string
	if _, known := info.Runtimes[ociRuntime]; ociRuntime != "" && !known {
		list = append(list, "the engine does not know the runtime "+ociRuntime+" of settings.runtime")
	}
	if !info.SwapLimit && info.MemoryLimit {
		list = append(list, "the engine cannot limit swap: a box may use more memory than its limit by swapping")
	}
	if strings.HasPrefix(host, "tcp://") && !strings.Contains(host, "//127.") && !strings.Contains(host, "//localhost") {
		list = append(list, "the engine is reached over the network; whoever reaches it is root there")
	}
	if !hasSeccomp(info.SecurityOptions) {
		list = append(list, "the engine has no seccomp profile: system calls are not filtered")
	}
	return list
}

func hasSeccomp(options []string) bool {
	for _, o := range options {
		if strings.HasPrefix(o, "name=seccomp") && !strings.Contains(o, "profile=unconfined") {
			return true
		}
	}
	return false
}

// newName is a container's name that nobody else uses.
func newName(purpose string) string {
	return "boxwright-" + purpose + "-" + strings.ToLower(rand.Text()[:16])
}
