package core

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlainText(t *testing.T) {
	for output, want := range map[string]string{
		"a\tb\r\nc":                  "a\tb\r\nc",
		"漢 \u202e ж":                 "漢 \u202e ж",
		"\xff\xfe ok":                "\uFFFD ok",
		"\x1b[1;31mred\x1b[0m plain": "red plain",
		"\x1b]0;a title\x07x":        "x",
		"\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b]0;cut off\nnext":                     "\nnext",
		"\x1bPq#0~\x1b\\x":                         "x",
		"\x1b(Bx\x1bcy":                            "xy",
		"\x1b":                                     "",
		"bell\x07 back\x08 nul\x00 del\x7f":        "bell\u2407 back\u2408 nul\u2400 del\u2421",
		"c1 \u009b31m":                             "c1 \uFFFD31m",
	} {
		if got := PlainText(output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
		if plain := IsPlainText([]byte(output)); plain != (output == want) {
			t.Errorf("%q: IsPlainText says %v", output, plain)
		}
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add("\x1b[1mx\x1b]0;t\x07")
	f.Fuzz(func(t *testing.T, output string) {
		got := PlainText(output)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, isControl) {
			t.Errorf("%q became %q", output, got)
		}
		if PlainText(got) != got {
			t.Errorf("%q is not stable", got)
		}
	})
}
