// Package gvisor is the backend on gVisor's runsc, without a daemon.
//
// A box is an OCI bundle in the backend's own folder, run by runsc directly: as root, or as an
// ordinary user without any privilege. Its root file system is the machine's own programs, or an
// image that the backend fetched itself. All that is known of a box is beside its bundle, so that
// any plugin with the same folder understands it, whoever made it.
// The package is linked by the plugin executable only.
package gvisor

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/execstream"
	"github.com/boxwright/boxwright/plugins/sdk/fetch"
	"github.com/boxwright/boxwright/ports/execution"
)

// Plugin makes backends. Its zero value works.
type Plugin struct {
	Version string // of the plugin executable
}

// machine is what the backend knows of the machine that it runs on; tests give their own.
type machine struct {
	uid, gid int
	self     string // the plugin's executable, which the network's stage is started from
	getenv   func(string) string
	cgroups  cgroups
	cpus     int
	system   string // where the root file system's programs are: "/"
}

func thisMachine() machine {
	self, _ := os.Executable() // without it, runsc is looked for in PATH only
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		self = resolved
	}
	return machine{
		uid: os.Getuid(), gid: os.Getgid(), self: self, getenv: os.Getenv,
		cgroups: findCgroups("/sys/fs/cgroup", os.Getuid()), cpus: runtime.NumCPU(), system: "/",
	}
}

// Backend makes boxes with runsc. It finds runsc at the first call.
type Backend struct {
	version   string
	server    string
	settings  Settings
	machine   machine
	folders   folders
	finder    *finder
	agents    *agentfile.Files
	pulls     fetch.Group
	work      sync.WaitGroup // what goes on in the background
	pythons   sync.Map       // versions by the state of an interpreter's file
	first     execstream.First
	collected sync.Once               // images that a while without a fetch has made too old
	kept      sync.Map                // when the copy of an agent was last seen whole, by name
	before    func(step string) error // for tests: called before each step of a Create
}

var _ execution.Backend = (*Backend)(nil)

// Open implements sdk.Open.
func (p Plugin) Open(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
	settings, err := decodeSettings(cfg.Settings)
	if err != nil {
		return nil, err
	}
	return newBackend(p.Version, cfg, settings, thisMachine())
}

func newBackend(version string, cfg sdk.Config, settings Settings, m machine) (*Backend, error) {
	where, err := foldersOf(settings, m.getenv)
	if err != nil {
		return nil, err
	}
	return &Backend{
		version:  version,
		server:   cfg.Server,
		settings: settings,
		machine:  m,
		folders:  where,
		finder:   newFinder(settings, m.self, m.getenv("PATH")),
		agents:   agentfile.New(cfg.Agents),
		before:   func(string) error { return nil },
	}, nil
}

// Close waits for what goes on in the background: removals of what a cancelled call left.
func (b *Backend) Close() error {
	b.work.Wait()
	return nil
}

// usable is ready for who wants a box.
func (b *Backend) usable(ctx context.Context) (*runsc, error) {
	r, err := b.finder.working(ctx)
	if err != nil {
		return nil, err
	}
	return r, b.folders.make()
}

// ready finds runsc and makes the folders.
func (b *Backend) ready(ctx context.Context) (*runsc, error) {
	r, err := b.finder.runsc(ctx)
	if err != nil {
		return nil, err
	}
	return r, b.folders.make()
}

// Info implements execution.Backend.
func (b *Backend) Info(ctx context.Context) (core.Info, error) {
	r, err := b.usable(ctx)
	if err != nil {
		return core.Info{}, err
	}
	return core.Info{
		Name:          "gvisor",
		Version:       b.version,
		Engine:        "gVisor",
		EngineVersion: r.version,
		Platform:      "linux/" + runtime.GOARCH,
		Limits:        b.limits(),
		Warnings:      b.warnings(),
		DefaultImage:  b.settings.DefaultImage,
	}, nil
}

// limits tells what makes each limit hold. Processes are the agent's to count in any case: a
// control group sees the box's kernel only.
func (b *Backend) limits() map[core.Limit]core.Enforcement {
	has := func(yes bool, how, otherwise core.Enforcement) core.Enforcement {
		if yes {
			return how
		}
		return otherwise
	}
	return map[core.Limit]core.Enforcement{
		core.LimitMemory:  has(b.machine.cgroups.Memory, core.EnforcedCgroup, core.EnforcedRlimit),
		core.LimitCPU:     has(b.machine.cgroups.CPU, core.EnforcedCgroup, core.EnforcedSandbox),
		core.LimitPIDs:    core.EnforcedRlimit,
		core.LimitDisk:    core.EnforcedSandbox,
		core.LimitNetwork: core.EnforcedSandbox,
	}
}

// checkHeld is the spec's CheckHeld, which does not know that processors without a control group
// hold in whole numbers only. A fraction is rounded up; see planLimits.
func (b *Backend) checkHeld(spec core.BoxSpec) (warnings []string, err error) {
	warnings, err = spec.CheckHeld(b.limits())
	cpus := spec.Limits.CPUs
	switch {
	case err != nil || b.machine.cgroups.CPU || holdsCPU(cpus, b.machine.cpus):
		return warnings, err
	case spec.Unenforced != core.UnenforcedWarn:
		return nil, core.Errorf(core.ErrUnsupported, "the cpu limit of %g processors cannot hold: without the cpu control group, only whole numbers do", cpus).
			WithHint("set limits.cpus to %g; or set limits.unenforced to warn, and it is rounded up", math.Ceil(cpus))
	}
	return append(warnings, fmt.Sprintf("the cpu limit of %g processors is rounded up to %g: without the cpu control group, only whole numbers hold", cpus, math.Ceil(cpus))), nil
}

// warnings are what an operator should know.
func (b *Backend) warnings() []string {
	var list []string
	if b.tunnel() == "" {
		list = append(list, "slirp4netns was not found: boxes with a network, which installing dependencies needs, are refused")
	}
	if b.machine.uid == 0 && !b.machine.cgroups.Memory {
		list = append(list, "the memory control group cannot be used: the agent watches the memory of boxes instead")
	}
	if !b.machine.cgroups.CPU {
		list = append(list, "without the cpu control group, a limit of processors holds only in whole numbers: a fraction is rounded up, or refused unless limits.unenforced is warn")
	}
	return list
}

// idPrefix tells whose a process or control group is.
const idPrefix = "boxwright-"

// newID is a box's id that nobody else uses or guesses.
func newID() string { return idPrefix + strings.ToLower(rand.Text()) }

// isID reports whether text is a whole id. It becomes a part of paths.
func isID(text string) bool {
	random, ours := strings.CutPrefix(text, idPrefix)
	return ours && len(random) == 26 && strings.Trim(random, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
