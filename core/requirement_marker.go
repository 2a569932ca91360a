package core

import (
	"slices"
	"strings"
)

// markerParser reads the marker of a requirement by the grammar of PEP 508, and writes it anew: what
// comes out holds nothing but what was understood. Installers split a line at " -" even inside
// quotes, so that no string may hold that either.
type markerParser struct{ rest string }

// unreadable says what the parser cannot read.
type unreadable string

func (e unreadable) Error() string { return string(e) }

// markerVariables are what a marker may ask for.
func markerVariables() []string {
	return []string{
		"python_version", "python_full_version", "os_name", "sys_platform", "platform_release", "platform_system",
		"platform_version", "platform_machine", "platform_python_implementation", "implementation_name",
		"implementation_version", "extra",
	}
}

// markerOperators has longer ones before those they begin with.
func markerOperators() []string {
	return []string{"===", "==", "~=", "!=", "<=", ">=", "<", ">"}
}

// normalizeMarker returns the marker in the one form that this program uses.
func normalizeMarker(text string) (string, error) {
	p := &markerParser{rest: text}
	marker, _, err := p.or()
	if err != nil {
		return "", err
	}
	if p.skip(); p.rest != "" {
		return "", unreadable("has something after its marker")
	}
	return marker, nil
}

// or reads alternatives; loose tells that the text binds less than "and".
func (p *markerParser) or() (text string, loose bool, err error) {
	parts, anyLoose, err := p.series("or", p.and)
	return strings.Join(parts, " or "), anyLoose || len(parts) > 1, err
}

func (p *markerParser) and() (text string, loose bool, err error) {
	parts, anyLoose, err := p.series("and", func() (string, bool, error) {
		text, loose, err := p.operand()
		if loose {
			text = "(" + text + ")"
		}
		return text, loose, err
	})
	if len(parts) == 1 && anyLoose {
		return parts[0][1 : len(parts[0])-1], true, err // it becomes a part of the "or" around it
	}
	return strings.Join(parts, " and "), false, err
}

// series reads operands with the word between them.
func (p *markerParser) series(word string, operand func() (string, bool, error)) (parts []string, anyLoose bool, err error) {
	for {
		part, loose, err := operand()
		if err != nil {
			return nil, false, err
		}
		parts, anyLoose = append(parts, part), anyLoose || loose
		if !p.word(word) {
			return parts, anyLoose, nil
		}
	}
}

// operand reads a comparison, or a whole marker in parentheses.
func (p *markerParser) operand() (text string, loose bool, err error) {
	if !p.take("(") {
		text, err = p.comparison()
		return text, false, err
	}
	if text, loose, err = p.or(); err == nil && !p.take(")") {
		err = unreadable("has a marker with a parenthesis that is not closed")
	}
	return text, loose, err
}

// comparison reads a variable and a quoted string, in either order.
func (p *markerParser) comparison() (string, error) {
	left, leftQuoted, err := p.value()
	if err != nil {
		return "", err
	}
	operator, err := p.operator()
	if err != nil {
		return "", err
	}
	right, rightQuoted, err := p.value()
	if err == nil && leftQuoted == rightQuoted {
		err = unreadable("has a marker that does not compare a variable with a quoted string")
	}
	return left + " " + operator + " " + right, err
}

func (p *markerParser) operator() (string, error) {
	for _, operator := range markerOperators() {
		if p.take(operator) {
			return operator, nil
		}
	}
	switch {
	case p.word("in"):
		return "in", nil
	case p.word("not") && p.word("in"):
		return "not in", nil
	}
	return "", unreadable("has a marker without a comparison")
}

// value reads a variable or a quoted string, which comes back in double quotes.
func (p *markerParser) value() (text string, quoted bool, err error) {
	if p.skip(); p.rest != "" && (p.rest[0] == '"' || p.rest[0] == '\'') {
		text, rest, closed := strings.Cut(p.rest[1:], p.rest[:1])
		if !closed || strings.Trim(text, markerStringCharacters) != "" || strings.Contains(text, " -") {
			return "", true, unreadable("has a marker with a string that cannot be read")
		}
		p.rest = rest
		return `"` + text + `"`, true, nil
	}
	name := p.rest[:wordLength(p.rest)]
	if !slices.Contains(markerVariables(), name) {
		return "", false, unreadable("has a marker that cannot be read")
	}
	p.rest = p.rest[len(name):]
	return name, false, nil
}

const (
	wordCharacters         = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	markerStringCharacters = wordCharacters + " .,+!*-"
)

func wordLength(text string) int { return len(text) - len(strings.TrimLeft(text, wordCharacters)) }

func (p *markerParser) skip() { p.rest = strings.TrimLeft(p.rest, " ") }

// take reads the symbol if it is next.
func (p *markerParser) take(symbol string) bool {
	p.skip()
	rest, is := strings.CutPrefix(p.rest, symbol)
	if is {
		p.rest = rest
	}
	return is
}

// word reads the word if it is next, and whole.
func (p *markerParser) word(word string) bool {
	p.skip()
	is := p.rest[:wordLength(p.rest)] == word
	if is {
		p.rest = p.rest[len(word):]
	}
	return is
}
