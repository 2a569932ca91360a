package core

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseInlineTOML reads the two keys that inline metadata has, and passes over what tools keep there besides:
// other keys, and everything from the first table on, as TOML has no way back from one.
func parseInlineTOML(text string) (InlineMetadata, error) {
	p := &tomlParser{rest: text}
	var found InlineMetadata
	seen := map[string]bool{}
	for {
		p.space()
		if p.rest == "" || p.rest[0] == '[' {
			return found, nil
		}
		key, err := p.key()
		if err != nil {
			return InlineMetadata{}, err
		}
		if seen[key] {
			return InlineMetadata{}, unreadable("it has " + strconv.Quote(key) + " twice")
		}
		seen[key] = true
		value, err := p.value(0)
		if err == nil {
			err = p.lineEnd()
		}
		if err == nil {
			err = found.set(key, value)
		}
		if err != nil {
			return InlineMetadata{}, err
		}
	}
}

func (m *InlineMetadata) set(key string, value any) error {
	switch key {
	case "requires-python":
		text, is := value.(string)
		if !is {
			return unreadable("requires-python is no string")
		}
		m.RequiresPython = strings.TrimSpace(text)
	case "dependencies":
		items, is := value.([]any)
		for _, item := range items {
			text, isText := item.(string)
			is = is && isText
			m.Dependencies = append(m.Dependencies, text)
		}
		if !is {
			return unreadable("dependencies is no list of strings")
		}
	}
	return nil
}

// tomlParser reads values of TOML as far as inline metadata needs them: strings and lists are understood, all
// other values are passed over.
type tomlParser struct{ rest string }

// maxTOMLDepth bounds lists in lists.
const maxTOMLDepth = 16

// space passes over blanks, line ends and comments.
func (p *tomlParser) space() {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t\r\n")
		if !strings.HasPrefix(p.rest, "#") {
			return
		}
		_, p.rest, _ = strings.Cut(p.rest, "\n")
	}
}

// key reads a key and its equals sign.
func (p *tomlParser) key() (string, error) {
	line, _, _ := strings.Cut(p.rest, "\n")
	key, _, ok := strings.Cut(line, "=")
	if !ok {
		return "", unreadable("the line " + strconv.Quote(shorten(line)) + " has no value")
	}
	p.rest = p.rest[len(key)+1:]
	key = strings.TrimSpace(key)
	if len(key) > 1 && (key[0] == '"' || key[0] == '\'') && key[len(key)-1] == key[0] {
		key = key[1 : len(key)-1]
	}
	if key == "" {
		return "", unreadable("a key is empty")
	}
	return shorten(key), nil
}

// lineEnd refuses a second value on a line.
func (p *tomlParser) lineEnd() error {
	line, rest, _ := strings.Cut(p.rest, "\n")
	line = strings.TrimSpace(line)
	if line != "" && line[0] != '#' {
		return unreadable("something follows a value: " + strconv.Quote(shorten(line)))
	}
	p.rest = rest
	return nil
}

// value reads a string or a list; any other value is nil.
func (p *tomlParser) value(depth int) (any, error) {
	p.rest = strings.TrimLeft(p.rest, " \t")
	switch {
	case depth > maxTOMLDepth:
		return nil, unreadable("its lists are too deep")
	case strings.HasPrefix(p.rest, `"`), strings.HasPrefix(p.rest, "'"):
		return p.text()
	case strings.HasPrefix(p.rest, "["):
		return p.list(depth)
	case strings.HasPrefix(p.rest, "{"):
		return nil, p.inlineTable()
	}
	end := strings.IndexAny(p.rest, ",]#\n")
	if end < 0 {
		end = len(p.rest)
	}
	if strings.TrimSpace(p.rest[:end]) == "" {
		return nil, unreadable("a value is missing")
	}
	p.rest = p.rest[end:]
	return nil, nil
}

func (p *tomlParser) list(depth int) ([]any, error) {
	items := []any{}
	p.rest = p.rest[1:]
	for {
		if p.space(); strings.HasPrefix(p.rest, "]") {
			p.rest = p.rest[1:]
			return items, nil
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		p.space()
		rest, more := strings.CutPrefix(p.rest, ",")
		if !more && !strings.HasPrefix(p.rest, "]") {
			return nil, unreadable("a list is not closed, or lacks a comma")
		}
		p.rest = rest
	}
}

// inlineTable passes over a table, which may hold tables and strings.
func (p *tomlParser) inlineTable() error {
	for depth := 0; ; {
		at := strings.IndexAny(p.rest, `{}"'`)
		if at < 0 {
			return unreadable("a table is not closed")
		}
		char := p.rest[at]
		p.rest = p.rest[at:]
		if char == '"' || char == '\'' {
			if _, err := p.text(); err != nil {
				return err
			}
			continue
		}
		p.rest = p.rest[1:]
		if char == '{' {
			depth++
		} else if depth--; depth == 0 {
			return nil
		}
	}
}

// text reads a string of any of the four kinds.
func (p *tomlParser) text() (string, error) {
	quote := p.rest[:1]
	long := strings.HasPrefix(p.rest, strings.Repeat(quote, 3))
	if long {
		quote = strings.Repeat(quote, 3)
	}
	p.rest = p.rest[len(quote):]
	if long {
		p.rest = strings.TrimPrefix(strings.TrimPrefix(p.rest, "\r"), "\n")
	}
	var b strings.Builder
	for p.rest != "" {
		switch {
		case strings.HasPrefix(p.rest, quote):
			p.rest = p.rest[len(quote):]
			return b.String(), nil
		case p.rest[0] == '\n' && !long:
			return "", unreadable("a string is not closed on its line")
		case p.rest[0] == '\\' && quote[0] == '"':
			if err := p.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(p.rest[0])
			p.rest = p.rest[1:]
		}
	}
	return "", unreadable("a string is not closed")
}

// escape reads a backslash and what it stands for.
func (p *tomlParser) escape(b *strings.Builder) error {
	const short = `b` + "\b" + `t` + "\t" + `n` + "\n" + `f` + "\f" + `r` + "\r" + `""\\`
	if len(p.rest) < 2 {
		return unreadable("a string is not closed")
	}
	char := p.rest[1]
	for i := 0; i < len(short); i += 2 {
		if short[i] == char {
			b.WriteByte(short[i+1])
			p.rest = p.rest[2:]
			return nil
		}
	}
	if strings.TrimLeft(p.rest[1:], " \t\r") != p.rest[1:] || char == '\n' { // the line goes on
		p.rest = strings.TrimLeft(p.rest[1:], " \t\r\n")
		return nil
	}
	digits := map[byte]int{'u': 4, 'U': 8}[char]
	if digits == 0 || len(p.rest) < 2+digits {
		return unreadable("a string has an escape that is none")
	}
	code, err := strconv.ParseUint(p.rest[2:2+digits], 16, 32)
	if err != nil || code > utf8.MaxRune || !utf8.ValidRune(rune(code)) {
		return unreadable("a string has an escape that is none")
	}
	b.WriteRune(rune(code))
	p.rest = p.rest[2+digits:]
	return nil
}
