// Package docker is the backend on Docker Engine.
//
// A box is a container with a read-only root, without capabilities and without a network unless
// asked for; the agent is its PID 1 and comes from a volume. Everything goes through the
// engine's API, nothing through a path of this machine, so the engine may be elsewhere.
// The package is linked by the plugin executable only.
package docker

import (
	"context"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/system"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
	"github.com/boxwright/boxwright/plugins/sdk/execstream"
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
	first    execstream.First
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
		Name:          "docker",
		Version:       b.version,
		Engine:        engineName(b.settings.Runtime),
		EngineVersion: now.info.ServerVersion,
		Platform:      now.info.OSType + "/" + now.arch,
		Limits:        now.limits,
		Warnings:      warnings(now.info, e.host, b.settings.Runtime),
	}, nil
}

// factsOf reads what the engine can make hold.
func factsOf(info system.Info, ociRuntime string) facts {
	cgroup := func(yes bool, otherwise core.Enforcement) core.Enforcement {
		if yes {
			return core.EnforcedCgroup
		}
		return otherwise
	}
	sandbox := isSandbox(info, ociRuntime)
	// A sandbox's cgroup counts its own threads, not the processes inside.
	pids := cgroup(info.PidsLimit && !sandbox, core.EnforcedRlimit)
	return facts{
		info:    info,
		arch:    daemon.GoArch(info.Architecture),
		sandbox: sandbox,
		limits: map[core.Limit]core.Enforcement{
			core.LimitMemory:  cgroup(info.MemoryLimit, core.EnforcedRlimit),
			core.LimitCPU:     cgroup(info.CPUCfsQuota, core.EnforcedNot),
			core.LimitPIDs:    pids,
			core.LimitDisk:    core.EnforcedSandbox,
			core.LimitNetwork: core.EnforcedSandbox,
		},
	}
}

// warnings are what an operator should know.
func warnings(info system.Info, host, ociRuntime string) []string {
	list := []string{daemon.LinkLocalReached}
	if err := checkRuntime(info, ociRuntime); err != nil {
		list = append(list, core.MessageOf(err))
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
