package core

import (
	"regexp"
	"slices"
	"strings"
)

// Requirement is one checked requirement of a Python package: name, extras, versions or a link, marker.
// Options, paths and control characters can not get into one, links only where the policy has them.
type Requirement struct {
	Name   string // normalised: lower case, runs of -_. are one -
	Extras []string
	Spec   string // ">=2,<3"; "" is any version
	URL    string // where the package itself is; "" is the index
	Marker string // `python_version < "3.11"`; "" is always
}

// Bounds of what a run may ask for.
const (
	maxRequirements      = 100
	maxRequirementLength = 300
)

const requirementHelp = `a requirement is a package name with optional extras, versions and marker, such as "pandas", "requests[socks]>=2,<3" or 'tomli; python_version < "3.11"'`

// requirementGrammar is that of PEP 508 without direct references; versions are those of PEP 440.
type requirementGrammar struct{ name, extras, versions *regexp.Regexp }

func newRequirementGrammar() requirementGrammar {
	const (
		name    = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
		release = `[vV]?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*`
		pre     = `(?:[-_.]?(?i:alpha|a|beta|b|preview|pre|rc|c)[-_.]?[0-9]*)?`
		post    = `(?:-[0-9]+|[-_.]?(?i:post|rev|r)[-_.]?[0-9]*)?`
		dev     = `(?:[-_.]?(?i:dev)[-_.]?[0-9]*)?`
		local   = `(?:\+[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*)?`
		suffix  = pre + post + dev
		version = `(?:(?:==|!=) *` + release + `\.\*|(?:===|==|!=) *` + release + suffix + local +
			`|~= *` + release + `\.[0-9]+` + suffix + `|(?:<=|>=|<|>) *` + release + suffix + `)`
	)
	return requirementGrammar{
		name:     regexp.MustCompile(`^` + name),
		extras:   regexp.MustCompile(`^\[ *(` + name + ` *(?:, *` + name + ` *)*)?\]`),
		versions: regexp.MustCompile(`^` + version + `(?: *, *` + version + `)* *,?$`),
	}
}

// ParseRequirements checks a list of requirements for packages of an index.
func ParseRequirements(texts []string) ([]Requirement, error) {
	return RequirementPolicy{}.Parse(texts)
}

// Parse checks a list of requirements; blank ones are left out, equal ones kept once. The result is sorted, so
// that order never makes a difference.
func (policy RequirementPolicy) Parse(texts []string) ([]Requirement, error) {
	if len(texts) > maxRequirements {
		return nil, Errorf(ErrInvalid, "%d dependencies are too many: at most %d are allowed", len(texts), maxRequirements)
	}
	grammar := newRequirementGrammar()
	var list []Requirement
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		r, err := grammar.parse(text, policy)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Requirement) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(list, func(a, b Requirement) bool { return a.String() == b.String() }), nil
}

func (g requirementGrammar) parse(text string, policy RequirementPolicy) (Requirement, error) {
	rest := strings.TrimSpace(text)
	r, help, err := g.parseEither(rest, policy)
	if err == nil && len(r.String()) > maxRequirementLength {
		err = unreadable("is too long") // spaces were added
	}
	if err != nil {
		return Requirement{}, Errorf(ErrInvalid, "dependency %q %w", shownRequirement(text), err).WithHint("%s", help)
	}
	return r, nil
}

func shownRequirement(text string) string {
	if len(text) > 60 {
		return text[:60] + "…"
	}
	return text
}

// parseEither reads a package of an index or a link. help says how it should have been.
func (g requirementGrammar) parseEither(rest string, policy RequirementPolicy) (r Requirement, help string, err error) {
	if why := plainlyWrong(rest); why != "" {
		return r, requirementHelp, unreadable(why)
	}
	if isLink(rest) {
		if !policy.Links {
			return r, requirementHelp + "; " + linkHelp, unreadable("is a link, which is not allowed")
		}
		return g.parseLink(rest, policy)
	}
	if why := notOfIndex(rest); why != "" {
		return r, requirementHelp, unreadable(why)
	}
	name := g.name.FindString(rest)
	if name == "" {
		return r, requirementHelp, unreadable("does not begin with a package name")
	}
	r, err = g.parseTail(Requirement{Name: NormalizePackage(name)}, strings.TrimSpace(rest[len(name):]))
	return r, requirementHelp, err
}

// plainlyWrong says what is wrong with a text that is no requirement at first sight.
func plainlyWrong(text string) string {
	switch {
	case len(text) > maxRequirementLength:
		return "is too long"
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > 0x7e }):
		return "holds a character that no requirement has"
	case strings.HasPrefix(text, "-"):
		return "is an option of the installer, which is not allowed"
	}
	return ""
}

// notOfIndex says what is wrong with a text that has what only links have.
func notOfIndex(text string) string {
	switch {
	case strings.Contains(text, "#"):
		return "has a comment, which is not allowed"
	case strings.ContainsAny(text, `/\`) || strings.HasPrefix(text, "."):
		return "is a path, which is not allowed"
	}
	return ""
}

// parseTail reads what follows the name.
func (g requirementGrammar) parseTail(r Requirement, rest string) (Requirement, error) {
	if m := g.extras.FindStringSubmatch(rest); m != nil {
		for extra := range strings.SplitSeq(m[1], ",") {
			if extra = NormalizePackage(strings.TrimSpace(extra)); extra != "" {
				r.Extras = append(r.Extras, extra)
			}
		}
		slices.Sort(r.Extras)
		r.Extras = slices.Compact(r.Extras)
		rest = strings.TrimSpace(rest[len(m[0]):])
	}
	spec, marker, hasMarker := strings.Cut(rest, ";")
	spec = strings.TrimSpace(spec)
	if strings.HasPrefix(spec, "(") && strings.HasSuffix(spec, ")") {
		spec = strings.TrimSpace(spec[1 : len(spec)-1])
	}
	if spec != "" && !g.versions.MatchString(spec) {
		return Requirement{}, unreadable("has versions that cannot be read")
	}
	if hasMarker {
		var err error
		if r.Marker, err = normalizeMarker(marker); err != nil {
			return Requirement{}, err
		}
	}
	// A comma at the end is common, but not every installer reads it.
	r.Spec = strings.TrimSuffix(strings.Join(strings.Fields(spec), ""), ",")
	return r, nil
}

// String is the requirement as an installer reads it, on one line.
func (r Requirement) String() string {
	text := r.Name
	if len(r.Extras) > 0 {
		text += "[" + strings.Join(r.Extras, ",") + "]"
	}
	text += r.Spec
	if r.URL != "" {
		text += " @ " + r.URL
	}
	if r.Marker != "" {
		text += " ; " + r.Marker
	}
	return text
}

// NormalizePackage folds the spellings of a package's name into one.
func NormalizePackage(name string) string {
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(fields, "-")
}
