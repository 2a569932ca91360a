package core_test

import (
	"context"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestPrincipalAllows(t *testing.T) {
	for name, c := range map[string]struct {
		who  core.Principal
		may  []core.Scope
		mayn []core.Scope
	}{
		"user":           {core.Principal{}, []core.Scope{core.ScopeRun, core.ScopeRead}, []core.Scope{core.ScopeAdmin}},
		"admin":          {core.Principal{Admin: true}, core.Scopes(), nil},
		"admin's key":    {core.Principal{Admin: true, Scopes: []core.Scope{core.ScopeRead}}, []core.Scope{core.ScopeRead}, []core.Scope{core.ScopeRun, core.ScopeAdmin}},
		"boastful key":   {core.Principal{Scopes: []core.Scope{core.ScopeAdmin}}, nil, core.Scopes()},
		"key of nothing": {core.Principal{Admin: true, Scopes: []core.Scope{}}, nil, core.Scopes()},
	} {
		for _, s := range c.may {
			if !c.who.Allows(s) {
				t.Errorf("%s may not %s", name, s)
			}
		}
		for _, s := range c.mayn {
			if c.who.Allows(s) {
				t.Errorf("%s may %s", name, s)
			}
		}
	}
}

func TestPrincipalOf(t *testing.T) {
	if p, ok := core.PrincipalOf(t.Context()); ok {
		t.Errorf("got %+v", p)
	}
	p, ok := core.PrincipalOf(core.WithPrincipal(context.WithoutCancel(t.Context()), core.Principal{ID: "ann"}))
	if !ok || p.ID != "ann" {
		t.Errorf("got %+v, %t", p, ok)
	}
}

func TestCheckPrincipalID(t *testing.T) {
	for _, id := range []string{"ann", "ü", "https://issuer.example|a", strings.Repeat("x", 128)} {
		if err := core.CheckPrincipalID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", " ", "a b", "a\n", "a\x00", "\xff", "\u202e", strings.Repeat("x", 129)} {
		if core.KindOf(core.CheckPrincipalID(id)) != core.ErrInvalid {
			t.Errorf("%q is taken", id)
		}
	}
}
