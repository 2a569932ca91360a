package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// Bounds of one answer of sandbox_inspect. Clients drop answers that are too long.
const (
	maxVariables     = 500
	maxVariablesText = 60 << 10 // bytes of JSON
)

// variableResult is a variable as clients see it.
type variableResult struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Value string `json:"value"`
}

func variableOf(v core.Variable) variableResult {
	return variableResult{
		Name: core.PlainText(v.Name), Type: core.PlainText(v.Type), Shape: core.PlainText(v.Shape), Size: v.Size, Value: core.PlainText(v.Value),
	}
}

func (v variableResult) line() string {
	return strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf("- %s: %s %s = %s", v.Name, v.Type, v.Shape, v.Value)), "\n", " ")
}

func (s *Server) sandboxInspect() tool {
	text := map[string]any{"type": "string"}
	items := map[string]any{"type": "object", "properties": map[string]any{
		"name": text, "type": text, "shape": text, "value": text, "size": map[string]any{"type": "integer", "description": "bytes"},
	}}
	return tool{
		name: "sandbox_inspect", title: "List a sandbox's variables",
		description: "Lists the variables of a sandbox's Python interpreter with their types, shapes, sizes and shortened values, and the packages that were installed into it.",
		params:      []param{sandboxParam("the sandbox's id or name").mandatory()},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"variables": map[string]any{"type": "array", "items": items},
			"packages":  map[string]any{"type": "array", "items": text},
			"cut":       map[string]any{"type": "boolean", "description": "there are more variables"},
		}},
		readOnly: true,
		handle:   s.inspect,
	}
}

func (s *Server) inspect(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	sandbox, err := c.optional("sandbox_id")
	if err != nil {
		return nil, err
	}
	all, err := s.cases.Inspect(ctx, c.owner, sandbox)
	if err != nil {
		return nil, err
	}
	session, err := s.cases.Session(ctx, c.owner, sandbox)
	if err != nil {
		return nil, err
	}
	return variablesResult(all, session.Requirements), nil
}

// variablesResult shows as much as one answer may hold, and says if that is not all.
func variablesResult(all []core.Variable, packages []string) *mcp.CallToolResult {
	results, lines, room := []variableResult{}, []string{}, maxVariablesText
	for _, v := range all {
		result := variableOf(v)
		if room -= len(mustJSON(result)); room < 0 || len(results) == maxVariables {
			break
		}
		results = append(results, result)
		lines = append(lines, result.line())
	}
	isCut := len(results) < len(all)
	switch {
	case isCut: // how many there are the box does not tell
		lines = append(lines, fmt.Sprintf("The list is cut: it has the first %d. Let a program print the others.", len(results)))
	case len(lines) == 0:
		lines = append(lines, "There are no variables.")
	}
	if len(packages) > 0 {
		lines = append(lines, "packages: "+strings.Join(packages, ", "))
	}
	return structuredResult(strings.Join(lines, "\n"), map[string]any{
		"variables": results, "packages": append([]string{}, packages...), "cut": isCut,
	})
}
