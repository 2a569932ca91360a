package core

import (
	"slices"
	"strings"
)

// Admits reports whether a version lies within what a specifier such as ">=3.9,<3.13" allows. One that cannot
// be read is ErrInvalid.
func Admits(specifier string, v Version) (bool, error) {
	if !newRequirementGrammar().versions.MatchString(strings.TrimSpace(specifier)) {
		return false, Errorf(ErrInvalid, "%q is no range of versions", shorten(specifier)).WithHint(`it is written like ">=3.9" or ">=3.9,<3.13"`)
	}
	for clause := range strings.SplitSeq(specifier, ",") {
		if clause = strings.TrimSpace(clause); clause != "" && !admits(clause, v) {
			return false, nil
		}
	}
	return true, nil
}

// admits is Admits for one clause, which has been checked.
func admits(clause string, v Version) bool {
	text := strings.TrimLeft(clause, "=!<>~")
	operator := clause[:len(clause)-len(text)]
	text, prefix := strings.CutSuffix(strings.TrimSpace(text), ".*")
	bound, ok := ParseVersion(text)
	if !ok {
		return false
	}
	order := v.Compare(bound)
	switch operator {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case "~=": // as >= with the last part free
		return order >= 0 && v.within(bound.release[:max(1, len(bound.release)-1)])
	}
	same := order == 0 || prefix && v.within(bound.release)
	return same == (operator != "!=")
}

// within reports whether the release begins like this.
func (v Version) within(release []int64) bool {
	own := slices.Clone(v.release)
	for len(own) < len(release) {
		own = append(own, 0)
	}
	return slices.Equal(own[:len(release)], release)
}
