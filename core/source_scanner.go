package core

import "strings"

// sourceScanner tells, line by line, whether a line of Python code begins a statement. It knows strings, comments
// and brackets, and nothing else of the language: code that does not parse may fool it.
type sourceScanner struct {
	quote     string // what ends the string that goes on; "" outside of one
	depth     int    // open brackets
	continued bool   // the last line ended in a backslash
}

// inside reports whether the next line goes on with what came before.
func (s *sourceScanner) inside() bool { return s.quote != "" || s.depth > 0 || s.continued }

// line reads the next line.
func (s *sourceScanner) line(text string) {
	s.continued = false
	text = strings.TrimSuffix(text, "\r")
	for text != "" {
		if s.quote != "" {
			text = s.string(text)
		} else {
			text = s.code(text)
		}
	}
	if len(s.quote) == 1 && !s.continued {
		s.quote = "" // it is not closed: an error, but not one that goes on
	}
}

// code reads up to the next string, and returns what follows.
func (s *sourceScanner) code(text string) string {
	at := strings.IndexAny(text, "'\"#()[]{}\\")
	if at < 0 {
		return ""
	}
	char := text[at]
	text = text[at:]
	switch char {
	case '#':
		return ""
	case '\\':
		s.continued = len(text) == 1
	case '(', '[', '{':
		s.depth++
	case ')', ']', '}':
		s.depth = max(0, s.depth-1)
	default:
		s.quote = text[:1]
		if long := strings.Repeat(s.quote, 3); strings.HasPrefix(text, long) {
			s.quote = long
		}
		return text[len(s.quote):]
	}
	return text[1:]
}

// string reads up to the string's end, and returns what follows.
func (s *sourceScanner) string(text string) string {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			s.continued = i == len(text)-1
			i++
		case strings.HasPrefix(text[i:], s.quote):
			rest := text[i+len(s.quote):]
			s.quote = ""
			return rest
		}
	}
	return ""
}
