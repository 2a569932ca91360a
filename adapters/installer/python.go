// Package installer installs Python packages from inside an installer box, with uv if the image
// or the cache has it, else with pip.
//
// It is not for making boxes or volumes, nor for deciding what may be installed: core/app does
// that. It never sees the code that the packages are for. Credentials of indexes and proxies
// reach the package manager as its environment, and are scrubbed from all that it says.
package installer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Options say where packages come from. The zero value uses the package managers' defaults.
type Options struct {
	IndexURL          string   // may hold credentials
	ExtraIndexURLs    []string // may hold credentials
	CABundle          string   // a PEM file of this host
	HTTPProxy         string   // may hold credentials
	HTTPSProxy        string   // may hold credentials
	NoProxy           string
	AllowSourceBuilds bool          // packages without wheels are built: code of theirs runs in the installer box
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

const (
	requirementsFile = "requirements.txt"
	caFile           = "ca-bundle.pem"
	maxCABundle      = 8 << 20 // bytes

	toolsDir   = core.GuestCache + "/tools"
	cachedUV   = toolsDir + "/bin/uv"
	scratchDir = core.GuestEnvironment + "/.boxwright-tmp" // on the volume: the box's own /tmp is small

	probeTimeout   = 20 * time.Second
	fetchUVTimeout = time.Minute
	compileTimeout = time.Minute
	uvPause        = 10 * time.Minute // after uv could not be fetched
)

// New returns an installer.
func New(options Options) *Python {
	if options.Timeout <= 0 {
		options.Timeout = 5 * time.Minute
	}
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	urls := append([]string{options.IndexURL, options.HTTPProxy, options.HTTPSProxy}, options.ExtraIndexURLs...)
	return &Python{options: options, scrub: newScrubber(urls), log: log, now: time.Now}
}

// UsesCache implements dependency.Installer: code of packages must not reach what others install.
func (p *Python) UsesCache() bool { return !p.options.AllowSourceBuilds }

// Private implements dependency.Installer.
func (p *Python) Private() bool {
	for _, index := range append([]string{p.options.IndexURL}, p.options.ExtraIndexURLs...) {
		if u, err := url.Parse(index); err != nil || u.User != nil {
			return true
		}
	}
	return false
}

// job is one installation.
type job struct {
	*Python
	guest    execution.Guest
	env      map[string]string
	progress func(core.Progress)
	runs     int
}

// Install implements dependency.Installer.
func (p *Python) Install(ctx context.Context, guest execution.Guest, requirements []core.Requirement, progress func(core.Progress)) (core.Installed, error) {
	if progress == nil {
		progress = func(core.Progress) {}
	}
	j := &job{Python: p, guest: guest, env: p.environment(), progress: progress}
	if err := j.writeFiles(ctx, requirements); err != nil {
		return core.Installed{}, err
	}
	// This comes first: without Python there is nothing to install for, whatever else the image has.
	if err := j.python(ctx, "import os, sys; os.makedirs(sys.argv[1], exist_ok=True)", scratchDir); err != nil {
		return core.Installed{}, err
	}
	command, err := j.command(ctx)
	if err != nil {
		return core.Installed{}, err
	}
	names := make([]string, len(requirements))
	for i, r := range requirements {
		names[i] = r.Name
	}
	progress(core.Progress{Phase: core.PhaseDependencies, Message: "installing " + shorten(strings.Join(names, ", "), 200)})
	text, exit, err := j.run(ctx, command, p.options.Timeout, throttle(j.progress))
	if err != nil {
		return core.Installed{}, err
	}
	if err := p.judge(ctx, names, exit, text); err != nil {
		return core.Installed{}, err
	}
	j.compile(ctx)
	if err := j.python(ctx, "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)", scratchDir); err != nil {
		return core.Installed{}, err
	}
	return core.Installed{Report: lastLines(text, 20, 4<<10)}, nil
}

// compile makes imports faster and is not needed for more: files that cannot be compiled are common.
func (j *job) compile(ctx context.Context) {
	j.progress(core.Progress{Phase: core.PhaseDependencies, Message: "compiling bytecode"})
	if text, exit, err := j.run(ctx, compileCommand(), compileTimeout, nil); err != nil || exit.TimedOut {
		j.log.Info("not all of an environment could be compiled; its imports are slower", "output", lastLines(text, 3, 500), "error", err)
	}
}

func (j *job) writeFiles(ctx context.Context, requirements []core.Requirement) error {
	var list strings.Builder
	for _, r := range requirements {
		// Checked when it was read; again here, as a line of the file can hold options of pip.
		checked, err := core.ParseRequirements([]string{r.String()})
		if err != nil {
			return err
		}
		if len(checked) != 1 || checked[0].String() != r.String() {
			return core.Errorf(core.ErrInvalid, "dependency %q cannot be read", r.Name)
		}
		fmt.Fprintln(&list, r)
	}
	if err := j.guest.WriteFile(ctx, requirementsFile, strings.NewReader(list.String())); err != nil {
		return err
	}
	if j.options.CABundle == "" {
		return nil
	}
	info, err := os.Stat(j.options.CABundle)
	if err == nil && info.Size() > maxCABundle {
		err = fmt.Errorf("it has more than %s", core.FormatBytes(maxCABundle))
	}
	if err != nil {
		return badBundle(err)
	}
	f, err := os.Open(j.options.CABundle)
	if err != nil {
		return badBundle(err)
	}
	defer func() { _ = f.Close() }()
	return j.guest.WriteFile(ctx, caFile, f)
}

func badBundle(err error) error {
	return core.Errorf(core.ErrDependency, "the certificate bundle for package indexes cannot be read: %w", err).
		WithHint("the operator sets it with dependencies.ca_bundle")
}

// command returns the package manager's command line: uv's if there is one, else pip's.
func (j *job) command(ctx context.Context) ([]string, error) {
	candidates := []string{"uv"}
	if j.UsesCache() {
		candidates = append(candidates, cachedUV)
	}
	for _, uv := range candidates {
		if j.works(ctx, uv, "--version") {
			return j.uvCommand(uv), nil
		}
	}
	if !j.works(ctx, "python3", "-I", "-m", "pip", "--version") {
		if ctx.Err() != nil {
			return nil, given(ctx, "the installation")
		}
		return nil, core.Errorf(core.ErrDependency, "the image has neither uv nor pip, so nothing can be installed").
			WithHint("use an image with Python and pip, or one that has the packages already")
	}
	if j.UsesCache() && j.now().UnixNano() >= j.withoutUV.Load() && j.fetchUV(ctx) {
		return j.uvCommand(cachedUV), nil
	}
	return j.pipCommand(), nil
}

func (j *job) works(ctx context.Context, argv ...string) bool {
	_, exit, err := j.run(ctx, argv, probeTimeout, nil)
	return err == nil && core.StatusOf(exit) == core.StatusOK
}

// fetchUV puts uv into the cache, once and for all later installs. It is moved there whole, and only
// if it works: other installers may do the same at this moment.
func (j *job) fetchUV(ctx context.Context) bool {
	j.progress(core.Progress{Phase: core.PhaseDependencies, Message: "fetching uv, once"})
	staging := core.GuestCache + "/staging-" + strings.ToLower(rand.Text()[:12])
	argv := []string{
		"python3", "-I", "-m", "pip", "install", "--target", staging, "--only-binary=:all:",
		"--no-input", "--disable-pip-version-check", "--no-warn-script-location", "--no-deps", "--no-compile", "uv",
	}
	text, exit, err := j.run(ctx, argv, fetchUVTimeout, nil)
	fetched := err == nil && core.StatusOf(exit) == core.StatusOK && j.works(ctx, staging+"/bin/uv", "--version")
	if j.moveUV(ctx, staging, fetched) && j.works(ctx, cachedUV, "--version") {
		return true
	}
	if ctx.Err() == nil {
		j.withoutUV.Store(j.now().Add(uvPause).UnixNano())
		j.log.Info("uv could not be fetched; pip is used", "output", lastLines(text, 3, 500))
	}
	return false
}

// moveUV moves the staging folder to its place if it is wanted there, and removes it else. What is
// in its place already stays.
func (j *job) moveUV(ctx context.Context, staging string, wanted bool) bool {
	const move = `import os, shutil, sys
if sys.argv[3] == "yes":
    try:
        os.rename(sys.argv[1], sys.argv[2])
    except OSError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)`
	answer := "no"
	if wanted {
		answer = "yes"
	}
	return j.python(ctx, move, staging, toolsDir, answer) == nil && wanted
}

func (j *job) python(ctx context.Context, code string, args ...string) error {
	argv := append([]string{"python3", "-I", "-c", code}, args...)
	text, exit, err := j.run(ctx, argv, probeTimeout, nil)
	switch {
	case err != nil:
		return err
	case exit.Cancelled:
		return given(ctx, "the installation")
	case exit.Code == noProgram:
		return core.Errorf(core.ErrUnsupported, "the image has no Python interpreter, so no packages can be installed for it").
			WithHint("use an image that has python3, such as python:3.11-slim")
	case core.StatusOf(exit) != core.StatusOK:
		return core.Errorf(core.ErrDependency, "the folder for packages cannot be used: %s", lastLines(text, 3, 500))
	}
	return nil
}

// noProgram is the exit status of a program that the image lacks.
const noProgram = 127

// run runs a command and returns what it said, scrubbed. A program that the image lacks is an
// exit with status noProgram.
// tell gets its lines while it runs, and may be nil.
func (j *job) run(ctx context.Context, argv []string, timeout time.Duration, tell func(line string)) (string, core.Exit, error) {
	j.runs++
	var sink func(core.Stream, []byte)
	if tell != nil {
		sink = (&lineWriter{scrub: j.scrub, tell: tell}).take
	}
	exit, err := j.guest.Run(ctx, core.RunSpec{
		ID:      fmt.Sprintf("install-%d", j.runs),
		Argv:    argv,
		Env:     j.env,
		Timeout: timeout,
		Output:  core.OutputLimits{Head: 8 << 10, Tail: 56 << 10},
		Stream:  tell != nil,
	}, sink)
	if errors.Is(err, core.ErrUnsupported) || errors.Is(err, core.ErrNotFound) {
		return "", core.Exit{Code: noProgram}, nil
	}
	if err != nil {
		return "", core.Exit{}, err
	}
	return j.scrub.clean(outputText(exit.Stdout) + outputText(exit.Stderr)), exit, nil
}

// outputText is the whole lines of an output: in half a line a secret would not be found.
func outputText(o core.Output) string {
	head, tail := o.Head, o.Tail
	if o.Cut() > 0 {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
		head = append(bytes.Clone(head), "…\n"...)
	}
	text := string(head) + string(tail)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// throttle passes on the first line, and then one for each quarter of a second at most.
func throttle(progress func(core.Progress)) func(line string) {
	var last time.Time
	return func(line string) {
		if now := time.Now(); now.Sub(last) >= 250*time.Millisecond {
			last = now
			progress(core.Progress{Phase: core.PhaseDependencies, Message: shorten(line, 200)})
		}
	}
}
