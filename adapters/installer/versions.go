package installer

import (
	"context"
	"regexp"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// mostVersions is how many versions of a package are told.
const mostVersions = 5

// Versions implements dependency.Installer. It is pip that knows its default index. What it tells are the versions that
// the box's Python can use.
func (p *Python) Versions(ctx context.Context, guest execution.Guest, name string) (core.Package, error) {
	j := p.newJob(guest, nil, nil)
	j.names = name
	if err := j.writeBundle(ctx); err != nil {
		return core.Package{}, err
	}
	argv := []string{"python3", "-I", "-m", "pip", "index", "versions", "--no-input", "--disable-pip-version-check", name}
	text, exit, err := j.run(ctx, command{argv: argv, env: j.onlyIndex(""), timeout: lookTimeout})
	if err != nil {
		return core.Package{}, err
	}
	if err := j.judge(ctx, "looking for "+name, exit, text); err != nil {
		if isUnknown(text) {
			return core.Package{}, core.Errorf(core.ErrNotFound, "the package index has no package %q", name)
		}
		return core.Package{}, core.Errorf(core.ErrUnavailable, "the package index could not be asked: %w", err).
			WithHint("the operator sets dependencies.index_url")
	}
	found := core.Package{Name: name, Versions: core.NewestVersions(versionsOf(text), mostVersions)}
	if len(found.Versions) == 0 {
		return core.Package{}, core.Errorf(core.ErrNotFound, "the package index has no version of %q for the Python of the image", name)
	}
	return found, nil
}

// isUnknown reports whether an index answered that it has no such package: pip says so too when none answered.
func isUnknown(text string) bool {
	return strings.Contains(text, "No matching distribution found") && !strings.Contains(text, "Retrying (")
}

// versionsOf reads what pip prints.
func versionsOf(text string) (versions []string) {
	version := regexp.MustCompile(`^[0-9][0-9A-Za-z.+!_-]{0,63}$`)
	for line := range strings.Lines(text) {
		list, is := strings.CutPrefix(line, "Available versions:")
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.TrimSpace(word); is && version.MatchString(word) {
				versions = append(versions, word)
			}
		}
	}
	return versions
}
