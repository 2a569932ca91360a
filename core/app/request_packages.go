package app

import (
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// takePackages returns all packages that a request asks for: in its list, in inline metadata, and in lines of a
// notebook that install them. These are taken out of the code.
func (j *job) takePackages(r *core.Request) ([]string, error) {
	if r.Command != "" || r.Language != "" && !strings.EqualFold(r.Language, string(core.LanguagePython)) {
		return r.Dependencies, nil
	}
	metadata, err := core.ParseInlineMetadata(r.Code)
	if err != nil {
		return nil, err
	}
	rest, installs, err := core.TakeInstalls(r.Code)
	if err != nil {
		return nil, err
	}
	r.Code, j.python = rest, metadata.RequiresPython
	return slices.Concat(r.Dependencies, metadata.Dependencies, installs), nil
}

// withoutBare leaves out requirements that only name a package of which others say more.
func withoutBare(requirements []core.Requirement) []core.Requirement {
	return slices.DeleteFunc(slices.Clone(requirements), func(r core.Requirement) bool {
		return r.String() == r.Name && slices.ContainsFunc(requirements, func(o core.Requirement) bool {
			return o.Name == r.Name && o.Marker == "" && o.String() != r.Name
		})
	})
}

func (s Settings) pickAutoInstall(r core.Request) (bool, error) {
	switch {
	case !r.AutoInstall:
		return false, nil
	case !s.AutoInstall || !s.Dependencies:
		return false, core.Errorf(core.ErrDenied, "this server installs only packages that are named").
			WithHint("name them in dependencies and leave auto_install out")
	case r.OpenStdin:
		return false, core.Errorf(core.ErrInvalid, "auto_install and open_stdin exclude each other: code that runs again would miss its input")
	}
	return true, nil
}
