package catalog

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// Bounds of what is told of a package.
const (
	mostVersions = 5
	maxSummary   = 500 // bytes
	maxWord      = 100 // bytes of a name, a version, a range
)

// projectJSON is what the JSON of a project has, as far as it is told.
type projectJSON struct {
	Info struct {
		Name           string `json:"name"`
		Version        string `json:"version"`
		Summary        string `json:"summary"`
		RequiresPython string `json:"requires_python"`
	} `json:"info"`
	Releases map[string][]struct {
		Yanked         bool   `json:"yanked"`
		RequiresPython string `json:"requires_python"`
	} `json:"releases"`
}

// project reads the JSON of a project.
func (c *Catalog) project(ctx context.Context, from *url.URL) (core.Package, error) {
	said, err := c.get(ctx, from, "application/json", maxAnswer)
	if err != nil {
		return core.Package{}, err
	}
	var p projectJSON
	if err := json.Unmarshal(said.body, &p); err != nil || p.Info.Name == "" {
		return core.Package{}, core.Errorf(core.ErrUnsupported, "it is no project's JSON")
	}
	needs := map[string]string{}
	var versions []string
	for version, files := range p.Releases {
		for _, file := range files {
			if !file.Yanked {
				versions = append(versions, version)
				needs[version] = file.RequiresPython
				break
			}
		}
	}
	found := packageOf(p.Info.Name, p.Info.Summary, versions, needs)
	if len(found.Versions) == 0 && p.Info.Version != "" {
		found.Versions, found.RequiresPython = []string{plain(p.Info.Version, maxWord)}, plain(p.Info.RequiresPython, maxWord)
	}
	return found, nil
}

// packageOf is what is told of a package; needs are the ranges of Python by version.
func packageOf(name, summary string, versions []string, needs map[string]string) core.Package {
	newest := core.NewestVersions(versions, mostVersions)
	found := core.Package{Name: plain(name, maxWord), Summary: plain(summary, maxSummary)}
	for _, version := range newest {
		found.Versions = append(found.Versions, plain(version, maxWord))
	}
	if len(newest) > 0 {
		found.RequiresPython = plain(needs[newest[0]], maxWord)
	}
	return found
}

// plain is a text on one line that does nothing to whoever shows it.
func plain(text string, size int) string {
	text = strings.Join(strings.Fields(core.PlainText(text[:min(len(text), 2*size)])), " ")
	if len(text) > size {
		text = strings.ToValidUTF8(text[:size], "") + "…"
	}
	return text
}
