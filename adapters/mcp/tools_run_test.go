package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// runs notes where a program was run.
type runs struct {
	UseCases
	where string
}

func (r *runs) RunOnce(context.Context, core.Request, func(core.Progress)) (core.Record, error) {
	r.where = "fresh box"
	return core.Record{}, nil
}

func (r *runs) RunInSession(_ context.Context, idOrName string, _ core.Request, _ func(core.Progress)) (core.Record, error) {
	r.where = "sandbox " + idOrName
	return core.Record{}, nil
}

func TestWhereCodeRuns(t *testing.T) {
	for _, c := range []struct{ arguments, where, refused string }{
		{`{}`, "fresh box", ""},
		{`{"sandbox_id": ""}`, "fresh box", ""},
		{`{"image": "python"}`, "fresh box", ""},
		{`{"sandbox_id": "a"}`, "sandbox a", ""},
		{`{"sandbox_id": "a", "image": "python"}`, "", "image cannot be chosen"},
		{`{"sandbox_id": "a", "backend": "x"}`, "", "backend cannot be chosen"},
	} {
		noted := &runs{}
		s := New(noted, Options{
			Languages: []core.Language{"bash"}, Backends: []string{"x"}, Images: []string{"python"},
			Timeout: 1, MaxTimeout: 1, Log: slog.New(slog.DiscardHandler),
		})
		arguments := strings.Replace(c.arguments, "{", `{"language": "bash", "code": "true", `, 1)
		arguments = strings.Replace(arguments, ", }", "}", 1)
		result, err := s.ListTools()["run_code"].Handler(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: json.RawMessage(arguments)}})
		switch {
		case c.refused != "":
			if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: got %v, want %q", arguments, err, c.refused)
			}
		case err != nil || result.IsError || noted.where != c.where:
			t.Errorf("%s: ran in %q (%v), want %q", arguments, noted.where, err, c.where)
		}
	}
}
