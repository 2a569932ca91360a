package core

import (
	"regexp"
	"strings"
)

// InlineMetadata is what a Python program says of itself in a comment block, by PEP 723.
type InlineMetadata struct {
	Dependencies   []string
	RequiresPython string // ">=3.11"; "" is any
}

// maxInlineMetadata bounds a block, in bytes.
const maxInlineMetadata = 64 << 10

const inlineHelp = `it is a comment block: "# /// script", then lines such as '# dependencies = ["pandas"]', then "# ///"`

// ParseInlineMetadata reads the block of type script in a program. Without one there is nothing; one that cannot
// be read, or a second one, is ErrInvalid.
func ParseInlineMetadata(code string) (InlineMetadata, error) {
	if !strings.Contains(code, "# /// script") {
		return InlineMetadata{}, nil
	}
	blocks := scriptBlocks(code)
	switch {
	case len(blocks) == 0:
		return InlineMetadata{}, nil
	case len(blocks) > 1:
		return InlineMetadata{}, Errorf(ErrInvalid, "the code has %d blocks of inline metadata; only one is allowed", len(blocks)).WithHint("%s", inlineHelp)
	case len(blocks[0]) > maxInlineMetadata:
		return InlineMetadata{}, Errorf(ErrInvalid, "the code's inline metadata has %d bytes; at most %d are allowed", len(blocks[0]), maxInlineMetadata)
	}
	found, err := parseInlineTOML(blocks[0])
	if err == nil && found.RequiresPython != "" {
		_, err = Admits(found.RequiresPython, Version{})
	}
	if err != nil {
		return InlineMetadata{}, Errorf(ErrInvalid, "the code's inline metadata cannot be read: %w", err).WithHint("%s", inlineHelp)
	}
	return found, nil
}

// scriptBlocks are the contents of all closed blocks of type script, as TOML.
func scriptBlocks(code string) []string {
	opening := regexp.MustCompile(`^# /// [a-zA-Z0-9-]+$`)
	var blocks []string
	lines := strings.Split(strings.ReplaceAll(code, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		if !opening.MatchString(lines[i]) {
			continue
		}
		end, next := blockEnd(lines, i+1)
		if end > 0 && lines[i] == "# /// script" {
			blocks = append(blocks, uncommented(lines[i+1:end]))
		}
		i = next - 1
	}
	return blocks
}

// blockEnd is the last line "# ///" before the first that is no comment, and where to look for the next block. No
// end is 0: then no block begins in these comments at all.
func blockEnd(lines []string, from int) (end, next int) {
	at := from
	for ; at < len(lines) && (lines[at] == "#" || strings.HasPrefix(lines[at], "# ")); at++ {
		if lines[at] == "# ///" {
			end = at
		}
	}
	if end > 0 {
		return end, end + 1
	}
	return 0, at
}

func uncommented(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimPrefix(line[1:], " "))
		b.WriteByte('\n')
	}
	return b.String()
}
