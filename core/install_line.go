package core

import (
	"regexp"
	"strings"
)

// TakeInstalls takes the lines out of Python code with which a notebook installs packages, "%pip install x" and
// "!pip install x", and returns what they ask for. All other lines keep their numbers. A line that asks for more
// than packages is ErrInvalid.
func TakeInstalls(code string) (rest string, packages []string, err error) {
	if !strings.Contains(code, "pip") || !strings.Contains(code, "install") {
		return code, nil, nil
	}
	opening := regexp.MustCompile(`^[ \t]*[%!][ \t]*(?:(?:python3?|\{sys\.executable\})[ \t]+-m[ \t]+|uv[ \t]+)?pip3?[ \t]+install(?:[ \t]|$)`)
	lines := strings.Split(code, "\n")
	var scan sourceScanner
	for i := 0; i < len(lines); i++ {
		head := opening.FindString(lines[i])
		if head == "" || scan.inside() {
			scan.line(lines[i])
			continue
		}
		text, last := joinedLine(lines, i)
		asked, err := installWords(text[min(len(head), len(text)):])
		if err != nil {
			return "", nil, Errorf(ErrInvalid, "line %d of the code, %q, %w", i+1, shorten(strings.TrimSpace(text)), err).
				WithHint(`such a line names packages and nothing else, as dependencies does: %%pip install pandas "requests>=2"`)
		}
		packages = append(packages, asked...)
		for n := i; n <= last; n++ {
			lines[n] = ""
		}
		if indent := len(head) - len(strings.TrimLeft(head, " \t")); indent > 0 {
			lines[i] = head[:indent] + "pass" // a block may hold nothing else
		}
		i = last
	}
	if rest = strings.Join(lines, "\n"); strings.TrimSpace(rest) == "" {
		rest = "pass"
	}
	return rest, packages, nil
}

// joinedLine is the line together with those that it goes on in, and the last of these.
func joinedLine(lines []string, first int) (text string, last int) {
	var b strings.Builder
	for last = first; ; last++ {
		part, more := strings.CutSuffix(strings.TrimRight(lines[last], " \t\r"), `\`)
		b.WriteString(part)
		if !more || last == len(lines)-1 {
			return b.String(), last
		}
		b.WriteByte(' ')
	}
}

// harmlessOptions are those of pip that change nothing here: every environment is a new one.
const harmlessOptions = `
-q -qq -qqq --quiet -U --upgrade --user --no-cache-dir --disable-pip-version-check --break-system-packages
--no-input --no-warn-script-location --root-user-action=ignore --progress-bar=off --prefer-binary -v --verbose --system
`

// installWords returns the packages that a line asks for.
func installWords(text string) (packages []string, err error) {
	words, err := shellWords(strings.TrimSuffix(silenced(text), ";"))
	if err != nil {
		return nil, err
	}
	named := false
	for _, word := range words {
		switch {
		case isListed(harmlessOptions, word):
		case word == "pip": // there is nothing to do with a newer one
			named = true
		case strings.HasPrefix(word, "-"):
			return nil, unreadable("has the option " + shorten(word) + ", which is not supported")
		case strings.ContainsAny(word[:1], "&|<>;$({"):
			return nil, unreadable("has " + shorten(word) + ", which is for a shell")
		default:
			named, packages = true, append(packages, word)
		}
	}
	if !named {
		return nil, unreadable("names no package")
	}
	return packages, nil
}

// silenced leaves out what only keeps pip's output from being seen.
func silenced(text string) string {
	silence := regexp.MustCompile(`[ \t](?:[12&]?> *\/dev\/null|2>&1)[ \t]*$`)
	for {
		shorter := silence.ReplaceAllString(strings.TrimSpace(text), "")
		if shorter == text {
			return text
		}
		text = shorter
	}
}

// shellWords splits a line at blanks, outside of quotes, and leaves a comment out.
func shellWords(text string) ([]string, error) {
	var words []string
	for {
		text = strings.TrimLeft(text, " \t\r")
		if text == "" || text[0] == '#' {
			return words, nil
		}
		var word strings.Builder
		for text != "" && !strings.ContainsAny(text[:1], " \t\r") {
			quote := text[:1]
			if quote != `"` && quote != "'" {
				word.WriteString(quote)
				text = text[1:]
				continue
			}
			inner, after, closed := strings.Cut(text[1:], quote)
			if !closed {
				return nil, unreadable("has a quote that is not closed")
			}
			word.WriteString(inner)
			text = after
		}
		if word.Len() == 0 {
			return nil, unreadable("has an empty word")
		}
		words = append(words, word.String())
	}
}
