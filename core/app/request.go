package app

import (
	"cmp"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// job is a checked request: only whether a backend may use the image is still to be seen.
type job struct {
	image        string // "" until the backend's default is known
	asked        string // the backend that the client asks for; "" is none
	requirements []core.Requirement
	files        []core.Input
	tenant       string
	spec         core.RunSpec
}

// plan checks a request against the operator's settings.
func (s Settings) plan(r core.Request) (job, error) {
	if err := s.checkCode(r.Code); err != nil {
		return job{}, err
	}
	image, err := checkImage(r.Image)
	if err != nil {
		return job{}, err
	}
	timeout, err := s.pickTimeout(r.Timeout)
	if err != nil {
		return job{}, err
	}
	requirements, err := s.pickRequirements(r.Dependencies)
	if err != nil {
		return job{}, err
	}
	if err := s.checkInputs(r); err != nil {
		return job{}, err
	}
	spec := core.RunSpec{Code: []byte(r.Code), Timeout: timeout, Output: s.Output}
	if r.Stdin != nil {
		spec.Stdin = append([]byte{}, *r.Stdin...)
	}
	return job{image: image, asked: r.Backend, requirements: requirements, files: r.Files, tenant: r.Tenant, spec: spec}, nil
}

func (s Settings) checkCode(code string) error {
	if strings.TrimSpace(code) == "" {
		return core.Errorf(core.ErrInvalid, "code is empty").WithHint("send the Python program as text in code")
	}
	if int64(len(code)) > s.MaxCode {
		return core.Errorf(core.ErrInvalid, "code has %d bytes; at most %d are allowed", len(code), s.MaxCode).
			WithHint("send large data in files and read it from the program")
	}
	if at := strings.IndexByte(code, 0); at >= 0 {
		return core.Errorf(core.ErrInvalid, "code holds a NUL character at byte %d, which Python does not accept", at).
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
func (s Settings) pickImage(asked string, on core.Info) (string, error) {
	usual, err := core.NormalizeImage(cmp.Or(s.DefaultImage, on.DefaultImage, FallbackImage))
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
	requirements, err := core.ParseRequirements(texts)
	if err != nil {
		return nil, err
	}
	if len(requirements) > 0 && !s.Dependencies {
		return nil, core.Errorf(core.ErrDenied, "this server installs no dependencies").
			WithHint("use an image that has the packages, or ask the operator to set dependencies.enabled")
	}
	return requirements, nil
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
