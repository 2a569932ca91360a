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
		version = `(?:(?:==|!=) *` + release + `\.\*|(?:===|==|~=|!=|<=|>=|<|>) *` + release + pre + post + dev + local + `)`
	)
	return requirementGrammar{
		name:     regexp.MustCompile(`^` + name),
		extras:   regexp.MustCompile(`^\[ *(` + name + ` *(?:, *` + name + ` *)*)?\]`),
		versions: regexp.MustCompile(`^` + version + `(?: *, *` + version + `)* *,?$`),
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
	if why := plainlyWrong(rest); why != "" {
		return refuse(why)
	}
	name := g.name.FindString(rest)
	if name == "" {
		return refuse("does not begin with a package name")
	}
	r, err := g.parseTail(Requirement{Name: NormalizePackage(name)}, strings.TrimSpace(rest[len(name):]), refuse)
	if err == nil && len(r.String()) > maxRequirementLength {
		return refuse("is too long") // spaces were added
	}
	return r, err
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
	case strings.Contains(text, "://") || strings.Contains(text, "@"):
		return "is a link, which is not allowed"
	case strings.Contains(text, "#"):
		return "has a comment, which is not allowed"
	case strings.ContainsAny(text, `/\`) || strings.HasPrefix(text, "."):
		return "is a path, which is not allowed"
	}
	return ""
}

func (g requirementGrammar) parseTail(r Requirement, rest string, refuse func(string) (Requirement, error)) (Requirement, error) {
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
		return refuse("has versions that cannot be read")
	}
	if hasMarker {
		var err error
		if r.Marker, err = normalizeMarker(marker); err != nil {
			return refuse(err.Error())
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
