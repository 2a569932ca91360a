package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// wireForm is a tool's answer as it goes over the wire.
func wireForm(ctx context.Context, t *testing.T, s *Server, text string, err error) []byte {
	t.Helper()
	handle := s.guard(func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(text), err
	})
	result, err := handle(ctx, mcp.CallToolRequest{})
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestOnlyWithdrawnCallsAreMarked(t *testing.T) {
	s := testServer()
	s.options.Log = slog.New(slog.DiscardHandler)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		text string
		err  error
		want bool
	}{
		"an answer":                       {t.Context(), "fine", nil, false},
		"a failure":                       {t.Context(), "", errors.New("x"), false},
		"a cancelled call":                {gone, "fine", nil, true},
		"a cancelled call that failed":    {gone, "", errors.New("x"), true},
		"a cancelled call with much text": {gone, strings.Repeat("x", 1<<20), nil, true},
		"a program that prints the mark":  {t.Context(), withdrawnMark, nil, false},
	} {
		if line := wireForm(c.ctx, t, s, c.text, c.err); IsWithdrawn(line) != c.want {
			t.Errorf("%s: %.200s: want withdrawn %v", name, line, c.want)
		}
	}
}
