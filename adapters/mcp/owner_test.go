package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// recorded are use cases that note for whom they are done.
type recorded struct {
	UseCases
	owners []string
	client string
}

func (r *recorded) RunInSession(_ context.Context, _ string, asked core.Request, _ func(core.Progress)) (core.Record, error) {
	r.owners, r.client = append(r.owners, asked.Tenant), asked.Client
	return core.Record{}, core.Errorf(core.ErrUnavailable, "no more is needed")
}

func (r *recorded) Sessions(_ context.Context, owner string) ([]core.SessionInfo, error) {
	r.owners = append(r.owners, owner)
	return nil, nil
}

func (r *recorded) OwnsRun(_ context.Context, owner, id string) error {
	switch {
	case id == "unreachable":
		return core.Errorf(core.ErrUnavailable, "the store is away")
	case owner != "ann":
		return core.Errorf(core.ErrNotFound, "there is no such run")
	}
	return nil
}

func use(ctx context.Context, s *Server, name, arguments string) string {
	answer := s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`))
	line, _ := json.Marshal(answer)
	return string(line)
}

func TestWhoseItIs(t *testing.T) {
	cases := &recorded{}
	s := New(cases, nil, Options{Tenant: "local", Server: "server", Log: slog.New(slog.DiscardHandler)})
	ann := core.WithPrincipal(t.Context(), core.Principal{ID: "ann", Credential: "key-1"})
	for _, ctx := range []context.Context{t.Context(), ann} {
		use(ctx, s, "list_sandboxes", "{}")
		use(ctx, s, "run_python", `{"code":"x"}`)
	}
	if want := []string{"local", "local", "ann", "ann"}; !slices.Equal(cases.owners, want) {
		t.Errorf("it was done for %q, want %q", cases.owners, want)
	}
}

// session is a connection with an id, or with none as later revisions have it.
type session struct {
	server.ClientSession
	id string
}

func (s session) SessionID() string { return s.id }
func (session) Initialized() bool   { return true }

func TestWhoseOwnSandboxItIs(t *testing.T) {
	cases := &recorded{}
	s := New(cases, nil, Options{Server: "server", Log: slog.New(slog.DiscardHandler)})
	seen := map[string]string{}
	for name, c := range map[string]struct {
		principal core.Principal
		session   string
		want      string
	}{
		"a session":          {core.Principal{ID: "ann", Credential: "1"}, "x", s.ClientOf("x")},
		"another session":    {core.Principal{ID: "ann", Credential: "1"}, "y", "server/y"},
		"no session":         {core.Principal{ID: "ann", Credential: "1"}, "", "credential/ann/1"},
		"another credential": {core.Principal{ID: "ann", Credential: "2"}, "", "credential/ann/2"},
		"somebody else":      {core.Principal{ID: "bob", Credential: "1"}, "", "credential/bob/1"},
	} {
		ctx := s.WithContext(core.WithPrincipal(t.Context(), c.principal), session{id: c.session})
		use(ctx, s, "run_python", `{"code":"x"}`)
		if cases.client != c.want {
			t.Errorf("%s: %q, want %q", name, cases.client, c.want)
		}
		if other := seen[cases.client]; other != "" {
			t.Errorf("%s and %s share one", name, other)
		}
		seen[cases.client] = name
	}
}

func TestScopes(t *testing.T) {
	s := New(&recorded{}, nil, Options{Log: slog.New(slog.DiscardHandler)})
	for name, c := range map[string]struct {
		scopes    []core.Scope
		run, read bool
	}{
		"all":    {nil, true, true},
		"run":    {[]core.Scope{core.ScopeRun}, true, true},
		"read":   {[]core.Scope{core.ScopeRead}, false, true},
		"nought": {[]core.Scope{}, false, false},
	} {
		ctx := core.WithPrincipal(t.Context(), core.Principal{ID: "ann", Scopes: c.scopes})
		for tool, want := range map[string]bool{"run_python": c.run, "list_sandboxes": c.read} {
			if answer := use(ctx, s, tool, `{}`); strings.Contains(answer, "does not allow") == want {
				t.Errorf("%s, %s: %s", name, tool, answer)
			}
		}
	}
}

func TestFilesOfSomebodyElse(t *testing.T) {
	s := New(&recorded{}, nil, Options{Log: slog.New(slog.DiscardHandler)})
	bob := core.WithPrincipal(t.Context(), core.Principal{ID: "bob"})
	if err := s.checkOwner(bob, "r", "a"); core.KindOf(err) != core.ErrNotFound || err.Error() != `run "r" has no file "a"` {
		t.Errorf("somebody else: %v", err)
	}
	if _, err := s.readFile(bob, "boxwright://runs/r/a"); core.KindOf(err) != core.ErrNotFound { // nothing is opened
		t.Errorf("somebody else reads: %v", err)
	}
	ann := core.WithPrincipal(t.Context(), core.Principal{ID: "ann"})
	if err := s.checkOwner(ann, "r", "a"); err != nil {
		t.Errorf("its owner: %v", err)
	}
	if err := s.checkOwner(ann, "unreachable", "a"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("when nobody can tell: %v", err)
	}
	if err := s.checkOwner(t.Context(), "r", "a"); err != nil {
		t.Errorf("where there is one owner: %v", err)
	}
}
