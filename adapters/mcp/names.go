package mcp

import (
	"regexp"
	"slices"
	"strings"
)

// renamedIn are tools that a set has under another program's names.
func renamedIn(set string) map[string]string {
	if set != SetMCPSandbox {
		return nil
	}
	return map[string]string{
		"sandbox_initialize": "create_sandbox", "run_python": "execute_python_code", "sandbox_exec": "execute_terminal_command",
		"write_file": "upload_file_to_sandbox",
	}
}

var (
	toolName = regexp.MustCompile(`\w+`)
	clause   = regexp.MustCompile(`(?s).+?(?:[;:.] |$)`)
)

// inSet says something that names our tools by the names that they have in the set that was chosen. A clause that names
// a tool which the set lacks is left out.
func (s *Server) inSet(text string) string {
	names, kept := renamedIn(s.options.Tools), ""
	renamed := toolName.ReplaceAllStringFunc(text, func(word string) string {
		if name, ok := names[word]; ok {
			return name
		}
		return word
	})
	for _, part := range clause.FindAllString(renamed, -1) {
		if !slices.ContainsFunc(toolName.FindAllString(part, -1), func(word string) bool { return s.lacking[word] }) {
			kept += part
		} else if kept != "" { // what was before it ends as it did
			kept = strings.TrimRight(kept, ";:. ") + part[len(strings.TrimRight(part, ";:. ")):]
		}
	}
	return kept
}
