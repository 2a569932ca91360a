package mcp

import (
	"context"
	"encoding/json"
	"io"
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

// shut is a file that is empty.
type shut struct{ *strings.Reader }

func (shut) Close() error { return nil }

func (r *recorded) OpenFile(_ context.Context, owner, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	r.owners = append(r.owners, owner+" "+run+" "+name)
	return shut{strings.NewReader("text")}, core.Artifact{MIMEType: "text/plain"}, nil
}

func use(ctx context.Context, s *Server, name, arguments string) string {
	answer := s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`))
	line, _ := json.Marshal(answer)
	return string(line)
}

func TestWhoseItIs(t *testing.T) {
	cases := &recorded{}
	s := New(cases, Options{Tenant: "local", Server: "server", Log: slog.New(slog.DiscardHandler)})
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
	s := New(cases, Options{Server: "server", Log: slog.New(slog.DiscardHandler)})
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
	s := New(&recorded{}, Options{Log: slog.New(slog.DiscardHandler)})
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
		if _, err := s.readFile(ctx, "boxwright://runs/r/f"); c.read != (err == nil) || !c.read && core.KindOf(err) != core.ErrDenied {
			t.Errorf("%s, a file: %v", name, err)
		}
	}
}

func TestWhoReadsAFile(t *testing.T) {
	cases := &recorded{}
	s := New(cases, Options{Tenant: "local", Log: slog.New(slog.DiscardHandler)})
	ann := core.WithPrincipal(t.Context(), core.Principal{ID: "ann"})
	for _, ctx := range []context.Context{t.Context(), ann} {
		if _, err := s.readFile(ctx, "boxwright://runs/r/a%20b"); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"local r a b", "ann r a b"}; !slices.Equal(cases.owners, want) {
		t.Errorf("read were %q, want %q", cases.owners, want)
	}
}
