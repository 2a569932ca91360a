package mcp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boxwright/boxwright/core"
)

// clip shortens s to at most n bytes, at a rune's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// outputText makes text of what is known of a stream: head, a line that says how much was left
// out, tail. It is text that does nothing to whoever shows it.
func outputText(o core.Output) string {
	cut := o.Cut()
	if cut <= 0 {
		return core.PlainText(string(o.Head) + string(o.Tail))
	}
	head, tail := wholeRunes(o.Head), wholeTail(o.Tail)
	return core.PlainText(string(head)) +
		fmt.Sprintf("\n[… %d bytes left out …]\n", o.Total-int64(len(head))-int64(len(tail))) +
		core.PlainText(string(tail))
}

// wholeRunes drops a rune that the cut went through at the end of b.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}
			return b
		}
	}
	return b
}

// wholeTail drops the rest of a rune that the cut went through at the beginning of b.
func wholeTail(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// shownName quotes a file's name where it would break out of its line.
func shownName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

// byteCount writes a size for a person.
func byteCount(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}
