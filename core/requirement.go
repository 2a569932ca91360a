package core

import (
	"regexp"
	"slices"
	"strings"
)

// Requirement is one checked requirement of a Python package: name, extras, versions, marker.
// Options, paths, links and control characters can not get into one.
type Requirement struct {
	Name   string // normalised: lower case, runs of -_. are one -
	Extras []string
	Spec   string // ">=2,<3"; "" is any version
	Marker string // `python_version < "3.11"`; "" is always
}

// Bounds of what a run may ask for.
const (
	maxRequirements      = 100
	maxRequirementLength = 300
)

const requirementHelp = `a requirement is a package name with optional extras, versions and marker, such as "pandas", "requests[socks]>=2,<3" or 'tomli; python_version < "3.11"'`

// The grammar of PEP 508 without direct references.
type requirementGrammar struct{ name, extras, versions, marker *regexp.Regexp }

func newRequirementGrammar() requirementGrammar {
	const version = `(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9_.*+!-]+`
	return requirementGrammar{
		name:     regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`),
		extras:   regexp.MustCompile(`^\[\s*([A-Za-z0-9._-]+(?:\s*,\s*[A-Za-z0-9._-]+)*)?\s*\]`),
		versions: regexp.MustCompile(`^` + version + `(?:\s*,\s*` + version + `)*\s*,?$`),
		marker:   regexp.MustCompile(`^[A-Za-z0-9_."'<>=!~()\s,*+-]+$`),
	}
}

// ParseRequirements checks a list of requirements; blank ones are left out, equal ones kept once.
// The result is sorted, so that order never makes a difference.
func ParseRequirements(texts []string) ([]Requirement, error) {
	if len(texts) > maxRequirements {
		return nil, Errorf(ErrInvalid, "%d dependencies are too many: at most %d are allowed", len(texts), maxRequirements)
	}
	grammar := newRequirementGrammar()
	var list []Requirement
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		r, err := grammar.parse(text)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Requirement) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(list, func(a, b Requirement) bool { return a.String() == b.String() }), nil
}

func (g requirementGrammar) parse(text string) (Requirement, error) {
	shown := text
	if len(shown) > 60 {
		shown = shown[:60] + "…"
	}
	refuse := func(why string) (Requirement, error) {
		return Requirement{}, Errorf(ErrInvalid, "dependency %q %s", shown, why).WithHint("%s", requirementHelp)
	}
	rest := strings.TrimSpace(text)
	switch {
	case len(rest) > maxRequirementLength:
		return refuse("is too long")
	case strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f || r > 0x7e }):
		return refuse("holds a character that no requirement has")
	case strings.HasPrefix(rest, "-"):
		return refuse("is an option of the installer, which is not allowed")
	case strings.Contains(rest, "://") || strings.Contains(rest, "@"):
		return refuse("is a link, which is not allowed")
	case strings.ContainsAny(rest, `/\`) || strings.HasPrefix(rest, "."):
		return refuse("is a path, which is not allowed")
	}
	name := g.name.FindString(rest)
	if name == "" {
		return refuse("does not begin with a package name")
	}
	return g.parseTail(Requirement{Name: NormalizePackage(name)}, strings.TrimSpace(rest[len(name):]), refuse)
}

func (g requirementGrammar) parseTail(r Requirement, rest string, refuse func(string) (Requirement, error)) (Requirement, error) {
	if m := g.extras.FindStringSubmatch(rest); m != nil {
		for extra := range strings.SplitSeq(m[1], ",") {
			if extra = NormalizePackage(strings.TrimSpace(extra)); extra != "" {
				r.Extras = append(r.Extras, extra)
			}
		}
		slices.Sort(r.Extras)
		rest = strings.TrimSpace(rest[len(m[0]):])
	}
	spec, marker, hasMarker := strings.Cut(rest, ";")
	spec, marker = strings.TrimSpace(spec), strings.TrimSpace(marker)
	if strings.HasPrefix(spec, "(") && strings.HasSuffix(spec, ")") {
		spec = strings.TrimSpace(spec[1 : len(spec)-1])
	}
	switch {
	case spec != "" && !g.versions.MatchString(spec):
		return refuse("has versions that cannot be read")
	case hasMarker && !g.isMarker(marker):
		return refuse("has a marker that cannot be read")
	}
	// A comma at the end is common, but not every installer reads it.
	r.Spec, r.Marker = strings.TrimSuffix(strings.Join(strings.Fields(spec), ""), ","), marker
	return r, nil
}

// isMarker asks for the outward form only, and for one comparison at least; the installer reads it whole.
func (g requirementGrammar) isMarker(marker string) bool {
	return g.marker.MatchString(marker) && strings.ContainsAny(marker, `"'`) &&
		(strings.ContainsAny(marker, "<>=") || strings.Contains(marker, " in "))
}

// String is the requirement as an installer reads it, on one line.
func (r Requirement) String() string {
	text := r.Name
	if len(r.Extras) > 0 {
		text += "[" + strings.Join(r.Extras, ",") + "]"
	}
	text += r.Spec
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
