// Package installer installs Python packages from inside an installer box, with uv if the image
// or the cache has it, else with pip.
//
// It is not for making boxes or volumes, nor for deciding what may be installed: core/app does
// that. It never sees the code that the packages are for. Credentials of indexes and proxies
// reach the package manager as its environment, and are scrubbed from all that it says.
package installer

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Options say where packages come from. The zero value uses the package managers' defaults.
type Options struct {
	IndexURL          string   // may hold credentials
	ExtraIndexURLs    []string // may hold credentials; see Options.Indexes for which is asked first
	CABundle          string   // a PEM file of this host
	HTTPProxy         string   // may hold credentials
	HTTPSProxy        string   // may hold credentials
	NoProxy           string
	Wheels            string        // a folder of this host; if it is set, its wheels are all there is, and no index is asked
	AllowSourceBuilds bool          // packages without wheels are built: code of theirs runs in the installer box
	PrivateCache      bool          // downloads are neither kept for other installs nor taken from them
	MaxCache          int64         // bytes of shared downloads, of each image; 0 is no bound
	MaxSize           int64         // of one environment, bytes; 0 is 2 GiB
	Timeout           time.Duration // of one installation; 0 is 5 minutes
	Logger            *slog.Logger  // nil: nowhere
}

// String tells nothing: half of the fields may hold secrets.
func (Options) String() string { return "[installer options]" }

// GoString tells nothing either.
func (o Options) GoString() string { return o.String() }

// LogValue tells nothing either.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Python is a dependency.Installer.
type Python struct {
	options Options
	scrub   scrubber
	log     *slog.Logger
	now     func() time.Time
	// withoutUV is until when uv is not fetched, in Unix nanoseconds: it could not be just before.
	withoutUV atomic.Int64
}

// Files of the workspace.
const (
	requirementsFile = "requirements.txt"
	lockFile         = "resolved.txt" // what uv writes
	pinsFile         = "lock.txt"     // what was understood of it
	reportFile       = "report.json"
	caFile           = "ca-bundle.pem"
	piecesDir        = "wheels"
)

const (
	maxCABundle = 8 << 20 // bytes
	defaultSize = 2 << 30 // bytes

	probeTimeout   = 20 * time.Second
	lookTimeout    = 30 * time.Second
	finishTimeout  = time.Minute
	fetchUVTimeout = time.Minute
	compileTimeout = 5 * time.Minute
	uvPause        = 10 * time.Minute // after uv could not be fetched
)

// New returns an installer.
func New(options Options) *Python {
	if options.Timeout <= 0 {
		options.Timeout = 5 * time.Minute
	}
	if options.MaxSize <= 0 {
		options.MaxSize = defaultSize
	}
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	urls := append([]string{options.IndexURL, options.HTTPProxy, options.HTTPSProxy}, options.ExtraIndexURLs...)
	return &Python{options: options, scrub: newScrubber(urls), log: log, now: time.Now}
}

// UsesCache implements dependency.Installer: code of packages must not reach what others install.
func (p *Python) UsesCache() bool { return !p.options.AllowSourceBuilds && !p.options.PrivateCache }

// Network implements dependency.Installer.
func (p *Python) Network() core.Network {
	if p.options.Wheels != "" {
		return core.NetworkNone
	}
	return core.NetworkFull
}

// Install implements dependency.Installer.
func (p *Python) Install(ctx context.Context, guest execution.Guest, ready core.Ready, requirements []core.Requirement, progress func(core.Progress)) (core.Installed, error) {
	j := p.newJob(guest, requirements, progress)
	present, err := j.prepare(ctx, ready, requirements)
	if err != nil {
		return core.Installed{}, err
	}
	if present != "" {
		return core.Installed{Report: present}, j.finish(ctx)
	}
	uv := ready.Tool
	if uv == "" {
		uv, err = j.findUV(ctx)
	}
	if err != nil {
		return core.Installed{}, err
	}
	install := j.withUV
	if uv == "" {
		install = j.withPip
	}
	pins, text, err := install(ctx, uv)
	if err != nil {
		return core.Installed{}, err
	}
	if len(pins) == 0 {
		if err := j.finish(ctx); err != nil {
			return core.Installed{}, err
		}
	}
	return core.Installed{Lock: pins.String(), Report: lastLines(text, 20, 4<<10)}, nil
}

// withUV resolves, and then installs what was understood of the outcome: no more than the lock says.
func (j *job) withUV(ctx context.Context, uv string) (lock, string, error) {
	resolved, err := j.manage(ctx, "resolving", j.guarded(j.uvResolve(uv)))
	if err != nil {
		return nil, "", err
	}
	pins, err := j.readLock(ctx)
	if err != nil || len(pins) == 0 {
		return pins, "nothing is needed for this Python", err
	}
	if err := j.guest.WriteFile(ctx, pinsFile, strings.NewReader(pins.String())); err != nil {
		return nil, "", err
	}
	installed, err := j.manage(ctx, "installing", j.guardedToTheEnd(j.uvInstall(uv, pins)))
	if err == nil {
		err = j.refuseUnsafe(ctx, uv, pins, resolved+installed)
	}
	return pins, installed, err
}

// refuseUnsafe refuses a package of whose wheel uv left something out because it would have been written
// elsewhere. The cache is to forget it, or the next installation would not be told.
func (j *job) refuseUnsafe(ctx context.Context, uv string, pins lock, text string) error {
	_, file, unsafe := strings.Cut(text, "Skipping unsafe file name: ")
	if !unsafe {
		return nil
	}
	clean := append([]string{uv, "cache", "clean", "--no-config"}, pins.names()...)
	if _, _, err := j.run(ctx, command{argv: clean, timeout: probeTimeout}); err != nil {
		return err
	}
	file, _, _ = strings.Cut(file, "\n")
	return core.Errorf(core.ErrDependency, "a package of %s would write outside its folder: %q", j.names, shorten(file, 100)).
		WithHint("do not use it: no honest package does that")
}

func (j *job) withPip(ctx context.Context, _ string) (lock, string, error) {
	text, err := j.manage(ctx, "installing", j.guardedToTheEnd(j.pipInstall()))
	if err != nil {
		return nil, "", err
	}
	pins, err := j.readReport(ctx)
	return pins, text, err
}

// Compile implements dependency.Installer. The code has its packages read-only, so that without bytecode every run
// would compile what it imports: pandas then takes seconds longer, each time.
func (p *Python) Compile(ctx context.Context, guest execution.Guest, source string) error {
	exit, err := guest.Run(ctx, core.RunSpec{
		ID: "compile", Argv: []string{"python3", "-I", "-c", compileProgram, source, core.GuestEnvironment}, Timeout: compileTimeout,
		Output: core.OutputLimits{Head: 1 << 10, Tail: 1 << 10},
	}, nil)
	if err != nil {
		return err
	}
	if exit.TimedOut {
		p.log.Info("not all of an environment could be compiled in time; some imports are slower", "environment", source)
	} else if core.StatusOf(exit) != core.StatusOK {
		return core.Errorf(core.ErrDependency, "packages could not be compiled: %s", lastLines(outputText(exit.Stderr), 3, 500))
	}
	return nil
}

// finish leaves nothing where nothing was installed.
func (j *job) finish(ctx context.Context) error {
	text, exit, err := j.run(ctx, command{argv: slices.Concat([]string{"python3", "-I", "-S", "-c", finishProgram}, j.finishing()), timeout: finishTimeout})
	if err != nil {
		return err
	}
	return j.judge(ctx, "installing "+j.names, exit, text)
}
