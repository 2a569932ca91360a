package installer

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/boxwright/boxwright/core"
)

const hidden = "***"

// leastSecret is the length from which a user name, a password or a query's value is looked for
// everywhere. Shorter ones are only hidden where they stand in a URL. A path is mostly words, so that
// its parts count from leastSegment on.
const (
	leastSecret  = 4
	leastSegment = 8
)

// ordinaryWords are parts of an index's path that tell nothing.
func ordinaryWords() []string {
	return []string{
		"", "simple", "pypi", "python", "packages", "packaging", "_packaging", "package", "index", "root", "api", "nexus", "artifactory",
		"artifacts", "repository", "repositories", "projects", "releases", "virtual", "public", "mirror", "mirrors", "pypi-all",
		"pypi-group", "pypi-hosted", "pypi-internal", "pypi-local", "pypi-mirror", "pypi-proxy", "pypi-public", "pypi-remote",
		"pypi-virtual",
	}
}

func isOrdinary(word string) bool { return slices.Contains(ordinaryWords(), strings.ToLower(word)) }

// scrubber takes credentials and control characters out of what package managers say.
type scrubber struct {
	secrets *strings.Replacer
	inURL   *regexp.Regexp
	query   *regexp.Regexp
	escapes *regexp.Regexp
}

func newScrubber(urls []string) scrubber {
	s := secrets{}
	for _, text := range urls {
		if text != "" {
			s.addURL(text)
		}
	}
	return scrubber{
		secrets: s.replacer(),
		inURL:   regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s]+@`),
		query:   regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s?#]*\?)[^\s#'"<>)\]]+`),
		escapes: regexp.MustCompile("\x1b(?:\\[[0-9;?]*[A-Za-z]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|.)?"),
	}
}

// secrets are texts by what stands in their place.
type secrets map[string]string

// addURL finds all of a URL that may be secret. What cannot be read as one is a secret as a whole.
func (s secrets) addURL(text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		if u, err = url.Parse("http://" + text); err != nil || u.Host == "" {
			s.add(text, leastSecret)
			return
		}
	}
	s.addUser(u, text)
	segments := strings.Split(u.EscapedPath(), "/")
	for _, segment := range segments {
		s.add(segment, leastSegment)
	}
	s.addQuery(u.RawQuery)
	s.add(u.EscapedFragment(), leastSegment)
	if u.RawQuery != "" || slices.ContainsFunc(segments, func(segment string) bool { return !isOrdinary(segment) }) {
		s.addPlace(u)
	}
}

func (s secrets) addUser(u *url.URL, text string) {
	if u.User == nil {
		return
	}
	raw := strings.TrimPrefix(text, u.Scheme+"://")
	if end := strings.IndexAny(raw, "/?#"); end >= 0 {
		raw = raw[:end]
	}
	s.add(raw[:max(0, strings.LastIndex(raw, "@"))], leastSecret)
	password, has := u.User.Password()
	s.add(password, leastSecret)
	if !has || password == "" || strings.HasPrefix(password, "x-oauth") {
		s.add(u.User.Username(), leastSecret) // a token may stand in the user's place
	}
}

func (s secrets) addQuery(query string) {
	s.add(query, leastSecret)
	for part := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, has := strings.Cut(part, "=")
		s.add(value, leastSecret)
		if !has {
			s.add(name, leastSecret) // ?TOKEN
		}
	}
}

// addPlace hides all that stands behind the host, however short its parts are.
func (s secrets) addPlace(u *url.URL) {
	for _, path := range []string{u.EscapedPath(), u.Path} {
		path = strings.TrimRight(path, "/")
		if path == "" {
			continue
		}
		for _, host := range []string{u.Host, strings.ToLower(u.Host), u.Hostname()} {
			s[host+path] = host + "/" + hidden
		}
	}
}

// add takes a text in all its forms, unless it is too short or an ordinary word.
func (s secrets) add(text string, least int) {
	for _, plain := range []string{text, unescaped(text, url.PathUnescape), unescaped(text, url.QueryUnescape)} {
		if isOrdinary(plain) {
			return
		}
		for _, form := range []string{plain, url.QueryEscape(plain), url.PathEscape(plain), url.UserPassword("", plain).String()[1:]} {
			for _, form := range []string{form, lowerEscapes(form)} {
				if len(form) >= least {
					s[form] = hidden
				}
			}
		}
	}
}

func unescaped(text string, by func(string) (string, error)) string {
	if plain, err := by(text); err == nil {
		return plain
	}
	return text
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(text string) string {
	return regexp.MustCompile(`%[0-9A-F]{2}`).ReplaceAllStringFunc(text, strings.ToLower)
}

func (s secrets) replacer() *strings.Replacer {
	// Longer ones first: a shorter one may be a part of it.
	texts := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, s[text])
	}
	return strings.NewReplacer(pairs...)
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
	text = s.inURL.ReplaceAllString(s.secrets.Replace(text), "${1}"+hidden+"@")
	return s.query.ReplaceAllString(text, "${1}"+hidden)
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
