package installer

import (
	"context"
	_ "embed" // a program that runs in the box
	"fmt"
	"regexp"
	"strings"

	"github.com/boxwright/boxwright/core"
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
