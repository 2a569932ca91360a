package core

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// escapes are what terminals obey: control sequences, strings for the terminal (titles, links, pictures),
// and the short ones. A string that is cut off ends with the line.
const escapes = "\x1b\\[[0-?]*[ -/]*[@-~]" +
	"|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?" +
	"|\x1b[ -/]*[0-~]?"

// PlainText makes text of a program's output that does nothing to whoever shows it: bytes that are not UTF-8
// become replacement characters, terminal sequences go, and other control characters are shown as their
// pictures. Tabs, line ends and carriage returns stay.
func PlainText(output string) string {
	text := strings.ToValidUTF8(output, "\uFFFD")
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	text = regexp.MustCompile(escapes).ReplaceAllString(text, "")
	return strings.Map(func(r rune) rune {
		switch {
		case !isControl(r):
			return r
		case r == 0x7f:
			return '\u2421'
		case r < ' ':
			return '\u2400' + r
		}
		return '\uFFFD' // C1: control sequences in one character
	}, text)
}

// IsPlainText reports whether PlainText leaves the output as it is.
func IsPlainText(output []byte) bool {
	return utf8.Valid(output) && !strings.ContainsFunc(string(output), isControl)
}

func isControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f
}
