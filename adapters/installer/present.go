package installer

import (
	"context"
	_ "embed" // a program that runs in the box
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

//go:embed look.py
var lookProgram string

// look makes the folder of wheels and looks what is in the image already. It returns a sentence about that, if that
// is all that is asked for: with a part of it, what is installed would not know which versions the rest needs.
// Without Python there is nothing to install for, whatever else the image has.
func (j *job) look(ctx context.Context, requirements []core.Requirement) (present string, err error) {
	args := []string{j.wheelsDir()}
	for _, r := range requirements {
		args = append(args, r.Name, r.String())
	}
	text, err := j.python(ctx, lookProgram, args...)
	if err != nil {
		return "", err
	}
	there := readPresent(text, requirements)
	if len(there) < len(requirements) {
		return "", nil
	}
	return "in the image already: " + strings.Join(there, ", "), nil
}

// lacks reports whether it is known already that the image lacks one of the packages, so that nobody need look. Wheels
// need the folder that looking makes.
func (j *job) lacks(ready core.Ready, requirements []core.Requirement) bool {
	return ready.Looked && j.options.Wheels == "" && slices.ContainsFunc(requirements, func(r core.Requirement) bool {
		return !slices.Contains(ready.Has, core.NormalizePackage(r.Name))
	})
}

// Prepare implements dependency.Installer. Credentials stay outside: what it starts gets none.
func (p *Python) Prepare(ctx context.Context, guest execution.Guest) (core.Ready, error) {
	j := p.newJob(guest, nil, nil)
	j.env = map[string]string{}
	var ready core.Ready
	text, exit, err := j.run(ctx, command{argv: []string{"python3", "-I", "-c", lookProgram, ""}, timeout: probeTimeout})
	if err != nil || core.StatusOf(exit) != core.StatusOK { // whoever installs is told
		return ready, err
	}
	ready.Has, ready.Looked = readNames(text)
	for _, uv := range j.placesOfUV() {
		if ready.Tool == "" && j.works(ctx, uv, "--version") {
			ready.Tool = uv
		}
	}
	return ready, nil
}

// readNames reads the names of packages, line by line; not whole if there are so many that some were left out.
func readNames(text string) (names []string, whole bool) {
	form := regexp.MustCompile(`^[a-z0-9-]{1,200}$`)
	for line := range strings.Lines(text) {
		name := strings.TrimSpace(line)
		if !form.MatchString(name) {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// readPresent reads numbers and versions, line by line.
func readPresent(text string, requirements []core.Requirement) (there []string) {
	version := regexp.MustCompile(`^[0-9][0-9A-Za-z.+!_]{0,63}$`)
	for n, r := range requirements {
		for line := range strings.Lines(text) {
			number, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if number == fmt.Sprint(n) && version.MatchString(rest) {
				there = append(there, r.Name+" "+rest)
				break
			}
		}
	}
	return there
}
