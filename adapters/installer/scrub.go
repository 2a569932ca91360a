package installer

import (
	"crypto/rand"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/boxwright/boxwright/core"
)

const hidden = "***"

// leastSecret is the length from which a user name or password is looked for everywhere. Shorter
// ones are only hidden where they stand in a URL.
const leastSecret = 4

// scrubber takes credentials and control characters out of what package managers say.
type scrubber struct {
	secrets *strings.Replacer
	inURL   *regexp.Regexp
	escapes *regexp.Regexp
	id      string // random; names what this process puts into the shared cache
}

func newScrubber(urls []string) scrubber {
	var secrets []string
	add := func(text string) {
		for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text), url.UserPassword("", text).String()[1:]} {
			if len(form) >= leastSecret && !slices.Contains(secrets, form) {
				secrets = append(secrets, form)
			}
		}
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.User == nil {
			continue
		}
		raw, _, _ := strings.Cut(strings.TrimPrefix(text, u.Scheme+"://"), "@")
		add(raw)
		password, has := u.User.Password()
		add(password)
		if !has || password == "" || strings.HasPrefix(password, "x-oauth") {
			add(u.User.Username()) // a token may stand in the user's place
		}
	}
	// Longer ones first: a shorter one may be a part of it.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, hidden)
	}
	return scrubber{
		secrets: strings.NewReplacer(pairs...),
		inURL:   regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@`),
		escapes: regexp.MustCompile("\x1b(?:\\[[0-9;?]*[A-Za-z]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|.)?"),
		id:      strings.ToLower(rand.Text()[:12]),
	}
}

// clean returns the text without credentials, escape sequences and control characters. It takes
// whole lines: a secret that was cut in two is not found.
func (s scrubber) clean(text string) string {
	text = s.escapes.ReplaceAllString(strings.ToValidUTF8(text, "�"), "")
	text = strings.Map(func(r rune) rune {
		if r == '\r' {
			return '\n'
		}
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	return s.inURL.ReplaceAllString(s.secrets.Replace(text), "${1}"+hidden+"@")
}

// lineWriter tells each whole line of a program's output, cleaned.
type lineWriter struct {
	scrub scrubber
	tell  func(line string)
	rest  map[core.Stream]string
}

// take is a sink: it is never called twice at the same time.
func (w *lineWriter) take(stream core.Stream, data []byte) {
	const longest = 4 << 10 // bytes of a line
	if w.rest == nil {
		w.rest = map[core.Stream]string{}
	}
	text := w.rest[stream] + string(data)
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			break
		}
		text = rest
		if line = strings.TrimSpace(w.scrub.clean(line)); line != "" {
			w.tell(line)
		}
	}
	if len(text) > longest {
		text = "" // no package manager's line; half of one might show half of a secret
	}
	w.rest[stream] = text
}

// lastLines returns the last lines that are not blank, of at most size bytes together.
func lastLines(text string, count, size int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			lines = append(lines, shorten(line, 500))
		}
	}
	lines = lines[max(0, len(lines)-count):]
	for len(lines) > 1 && len(strings.Join(lines, "\n")) > size {
		lines = lines[1:]
	}
	return shorten(strings.Join(lines, "\n"), size)
}

// shorten cuts text to at most size bytes, the sign that it was cut included.
func shorten(text string, size int) string {
	const mark = "…"
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, size-len(mark))], "") + mark
}
