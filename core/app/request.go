package app

import (
	"cmp"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// job is a checked request: only whether a backend may use the image is still to be seen.
type job struct {
	language     core.Language
	image        string // "" until the default is known
	fallback     string // the language's image; "" is that of Python
	asked        string // the backend that the client asks for; "" is none
	requirements []core.Requirement
	files        []core.Input
	tenant       string
	client       string
	background   bool
	autoInstall  bool
	python       string // the range of versions of Python that the code needs; "" is any
	spec         core.RunSpec
}

// plan checks a request against the operator's settings. In a session, the program is one of those that
// share its box.
func (s Settings) plan(r core.Request, inSession bool) (job, error) {
	j := job{asked: r.Backend, files: r.Files, tenant: r.Tenant, client: r.Client, background: r.Background}
	named, err := j.takePackages(&r)
	if err != nil {
		return job{}, err
	}
	if j.spec, err = s.planProgram(r, &j, inSession); err != nil {
		return job{}, err
	}
	if j.image, err = checkImage(r.Image); err != nil {
		return job{}, err
	}
	if j.spec.Timeout, err = s.pickTimeout(r.Timeout); err != nil {
		return job{}, err
	}
	if j.requirements, err = s.pickRequirements(named); err != nil {
		return job{}, err
	}
	if j.autoInstall, err = s.pickAutoInstall(r); err != nil {
		return job{}, err
	}
	if err := s.checkInputs(r); err != nil {
		return job{}, err
	}
	if r.Stdin != nil {
		j.spec.Stdin = append([]byte{}, *r.Stdin...)
	}
	j.spec.Output, j.spec.OpenStdin, j.spec.Keep = s.Output, r.OpenStdin, inSession
	j.spec.Dir, j.spec.Env = r.Dir, r.Env
	return j, nil
}

// planProgram is what the box is to run: a line for its shell, or code in some language.
func (s Settings) planProgram(r core.Request, j *job, inSession bool) (core.RunSpec, error) {
	if r.Command != "" {
		j.language = languageShell
		return core.RunSpec{Argv: []string{"/bin/sh", "-c", r.Command}}, s.checkText("command", r.Command)
	}
	language, interpreter, err := s.Interpreters.Find(r.Language)
	if err != nil {
		return core.RunSpec{}, err
	}
	if err := s.checkText("code", r.Code); err != nil {
		return core.RunSpec{}, err
	}
	j.language, j.fallback = language, interpreter.Image
	spec := core.RunSpec{Code: []byte(r.Code)}
	if language == core.LanguagePython {
		spec.Session = inSession
	} else {
		spec.Argv, spec.CodeFile = interpreter.Spec(inSession)
	}
	return spec, nil
}

// languageShell is that of a command.
const languageShell core.Language = "shell"

// maxSummary bounds what a list of runs shows of a program, in bytes.
const maxSummary = 120

// summary is the first line that says something.
func (j job) summary() string {
	text := string(j.spec.Code)
	if j.language == languageShell {
		text = j.spec.Argv[len(j.spec.Argv)-1]
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.ToValidUTF8(line[:min(len(line), maxSummary)], "")
}

// checkText refuses a program that is none. what is the argument's name.
func (s Settings) checkText(what, text string) error {
	if strings.TrimSpace(text) == "" {
		return core.Errorf(core.ErrInvalid, "%s is empty", what).WithHint("send the whole program as text in %s", what)
	}
	if int64(len(text)) > s.MaxCode {
		return core.Errorf(core.ErrInvalid, "%s has %d bytes; at most %d are allowed", what, len(text), s.MaxCode).
			WithHint("send large data in files and read it from the program")
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return core.Errorf(core.ErrInvalid, "%s holds a NUL character at byte %d, which no interpreter accepts", what, at).
			WithHint(`write it as \0 inside a string literal`)
	}
	return nil
}

// checkImage returns the familiar form of an image, or "" if none was named.
func checkImage(image string) (string, error) {
	if image == "" {
		return "", nil
	}
	return core.NormalizeImage(image)
}

// pickImage returns the image of a run on a backend: the one asked for if it is allowed, or the
// default, which always is.
func (s Settings) pickImage(asked, ofLanguage string, on core.Info) (string, error) {
	usual, err := core.NormalizeImage(cmp.Or(ofLanguage, s.DefaultImage, on.DefaultImage, FallbackImage))
	if err != nil {
		return "", core.Errorf(core.ErrUnavailable, "the backend %s has a default image that is none: %w", on.Name, err).
			WithHint("the operator can set images.default")
	}
	if asked == "" || asked == usual {
		return usual, nil
	}
	return asked, s.Images.Allow(asked)
}

// pickTimeout is the one rule for time limits: none given is the default, anything else must lie
// above zero and at or below the ceiling.
func (s Settings) pickTimeout(asked *time.Duration) (time.Duration, error) {
	if asked == nil {
		return s.Timeout, nil
	}
	if *asked <= 0 || *asked > s.MaxTimeout {
		return 0, core.Errorf(core.ErrInvalid, "timeout_seconds is %g; it must be above 0 and at most %g",
			asked.Seconds(), s.MaxTimeout.Seconds()).
			WithHint("leave it out for the default of %g seconds", s.Timeout.Seconds())
	}
	return *asked, nil
}

func (s Settings) pickRequirements(texts []string) ([]core.Requirement, error) {
	requirements, err := s.Requirements.Parse(texts)
	if err != nil {
		return nil, err
	}
	if len(requirements) > 0 && !s.Dependencies {
		return nil, errNoDependencies()
	}
	return withoutBare(requirements), nil
}

func errNoDependencies() error {
	return core.Errorf(core.ErrDenied, "this server installs no dependencies").
		WithHint("use an image that has the packages, or ask the operator to set dependencies.enabled")
}

func (s Settings) checkInputs(r core.Request) error {
	if r.Stdin != nil && int64(len(*r.Stdin)) > s.MaxStdin {
		return core.Errorf(core.ErrInvalid, "stdin has %d bytes; at most %d are allowed", len(*r.Stdin), s.MaxStdin).
			WithHint("send large data in files")
	}
	if len(r.Files) > s.MaxInputs {
		return core.Errorf(core.ErrInvalid, "%d files were sent; at most %d are allowed", len(r.Files), s.MaxInputs)
	}
	var total int64
	seen := map[string]bool{}
	for _, f := range r.Files {
		if err := core.CheckPath(f.Name); err != nil {
			return err
		}
		if seen[f.Name] {
			return core.Errorf(core.ErrInvalid, "file %q was sent twice", f.Name)
		}
		seen[f.Name] = true
		total += int64(len(f.Content))
	}
	if total > s.MaxInputBytes {
		return core.Errorf(core.ErrInvalid, "the files have %d bytes in all; at most %d are allowed", total, s.MaxInputBytes)
	}
	return nil
}
