package installer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// job is one installation.
type job struct {
	*Python
	id       string // no other job in the box has it
	guest    execution.Guest
	names    string // of the packages, for sentences
	scratch  string // on the volume, as the box's own /tmp is small; no package can know its name
	env      map[string]string
	deadline time.Time
	progress func(core.Progress)
	runs     int

	staged      map[string]bool // wheels that are in the box
	stagedBytes int64
	pieces      int
	pending     int64 // bytes of pieces in the workspace
}

func (p *Python) newJob(guest execution.Guest, requirements []core.Requirement, progress func(core.Progress)) *job {
	if progress == nil {
		progress = func(core.Progress) {}
	}
	id := strings.ToLower(rand.Text()[:12])
	j := &job{
		Python: p, id: id, guest: guest, progress: progress, staged: map[string]bool{},
		names:    shorten(strings.Join(packageNames(requirements), ", "), 200),
		scratch:  core.GuestEnvironment + "/.boxwright-" + id,
		deadline: p.now().Add(p.options.Timeout),
	}
	j.env = j.environment()
	return j
}

func packageNames(requirements []core.Requirement) []string {
	names := make([]string, len(requirements))
	for i, r := range requirements {
		names[i] = r.Name
	}
	return names
}

func (j *job) tell(message string) {
	j.progress(core.Progress{Phase: core.PhaseDependencies, Message: message})
}

// prepare puts into the box what the package managers read, unless all is present already.
func (j *job) prepare(ctx context.Context, ready core.Ready, requirements []core.Requirement) (present string, err error) {
	list, err := requirementsList(requirements)
	if err != nil {
		return "", err
	}
	if !j.lacks(ready, requirements) {
		if present, err = j.look(ctx, requirements); err != nil || present != "" {
			return present, err
		}
	}
	if err := j.guest.WriteFile(ctx, requirementsFile, strings.NewReader(list)); err != nil {
		return "", err
	}
	if err := j.writeBundle(ctx); err != nil {
		return "", err
	}
	return "", j.stageWheels(ctx, packageNames(requirements))
}

// requirementsList is a file for package managers. Requirements were checked when they were read; they are
// again here, as a line of the file can hold options of pip.
func requirementsList(requirements []core.Requirement) (string, error) {
	var list strings.Builder
	for _, r := range requirements {
		checked, err := core.RequirementPolicy{Links: r.URL != "", Builds: true}.Parse([]string{r.String()})
		if err != nil {
			return "", err
		}
		if len(checked) != 1 || checked[0].String() != r.String() {
			return "", core.Errorf(core.ErrInvalid, "dependency %q cannot be read", r.Name)
		}
		fmt.Fprintln(&list, r)
	}
	return list.String(), nil
}

func (j *job) writeBundle(ctx context.Context) error {
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

// manage runs a package manager for as long as the installation may still take. What it says goes to the
// caller while it runs.
func (j *job) manage(ctx context.Context, doing string, argv []string) (string, error) {
	j.tell(doing + " " + j.names)
	text, exit, err := j.run(ctx, command{argv: argv, timeout: max(time.Second, j.deadline.Sub(j.now())), tell: throttle(j.progress)})
	if err != nil {
		return "", err
	}
	return text, j.judge(ctx, "installing "+j.names, exit, text)
}

// python runs a short program of ours, and returns what it said.
func (j *job) python(ctx context.Context, code string, args ...string) (string, error) {
	return j.pythonFor(ctx, probeTimeout, code, args...)
}

// pythonFor is python for a program that may take so long.
func (j *job) pythonFor(ctx context.Context, most time.Duration, code string, args ...string) (string, error) {
	text, exit, err := j.run(ctx, command{argv: append([]string{"python3", "-I", "-c", code}, args...), timeout: most})
	switch {
	case err != nil:
		return "", err
	case exit.Cancelled:
		return "", given(ctx, "the installation")
	case exit.Code == noProgram:
		return "", core.Errorf(core.ErrUnsupported, "the image has no Python interpreter, so no packages can be installed for it").
			WithHint("use an image that has python3, such as python:3.11-slim")
	case core.StatusOf(exit) != core.StatusOK:
		return "", core.Errorf(core.ErrDependency, "the folder for packages cannot be used: %s", lastLines(text, 3, 500))
	}
	return text, nil
}

// noProgram is the exit status of a program that the image lacks.
const noProgram = 127

// command is a program to run in the box.
type command struct {
	argv    []string
	env     map[string]string // nil: the job's
	timeout time.Duration
	tell    func(line string) // gets its lines while it runs; may be nil
}

// run runs a command and returns what it said, scrubbed. A program that the image lacks is an
// exit with status noProgram.
func (j *job) run(ctx context.Context, c command) (string, core.Exit, error) {
	j.runs++
	var sink func(core.Stream, []byte)
	if c.tell != nil {
		sink = (&lineWriter{scrub: j.scrub, tell: c.tell}).take
	}
	if c.env == nil {
		c.env = j.env
	}
	exit, err := j.guest.Run(ctx, core.RunSpec{
		ID:      fmt.Sprintf("install-%s-%d", j.id, j.runs),
		Argv:    c.argv,
		Env:     c.env,
		Timeout: c.timeout,
		Output:  core.OutputLimits{Head: 8 << 10, Tail: 56 << 10},
		Stream:  c.tell != nil,
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
