package main

import (
	"io"
	"strings"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/core"
)

// shownKey is a key for programs.
type shownKey struct {
	ID         string        `json:"id"`
	User       string        `json:"user"`
	Label      string        `json:"label,omitempty"`
	State      core.KeyState `json:"state"`
	Scopes     []core.Scope  `json:"scopes"` // null: all that its user may
	Created    time.Time     `json:"created"`
	Expires    time.Time     `json:"expires,omitzero"`
	Used       time.Time     `json:"used,omitzero"`
	Revoked    time.Time     `json:"revoked,omitzero"`
	ReplacedBy string        `json:"replaced_by,omitempty"`
	Key        string        `json:"key,omitempty"` // once, when it is made
}

func shownKeyOf(k core.Key, owner string) shownKey {
	return shownKey{
		ID: auth.Shown(k.ID), User: owner, Label: k.Label, State: k.State(time.Now()), Scopes: k.Scopes, Created: k.Created.UTC(),
		Expires: k.Expires.UTC(), Used: k.Used.UTC(), Revoked: k.Revoked.UTC(), ReplacedBy: shownIfAny(k.ReplacedBy),
	}
}

func shownIfAny(id string) string {
	if id == "" {
		return ""
	}
	return auth.Shown(id)
}

func (f *identityFlags) printKeys(w io.Writer, list []core.Key, owners map[string]string) error {
	return listing[core.Key, shownKey]{
		shown: func(k core.Key) shownKey { return shownKeyOf(k, owners[k.Owner]) },
		empty: "there are no keys; boxwright keys create makes one", header: "ID\tUSER\tSTATE\tSCOPES\tCREATED\tEXPIRES\tUSED\tLABEL",
		row: func(table io.Writer, k core.Key) {
			say(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", auth.Shown(k.ID), owners[k.Owner], k.State(time.Now()), scopesOf(k),
				clock(k.Created), clock(k.Expires), clock(k.Used), k.Label)
		},
	}.print(w, f.asJSON, list)
}

func scopesOf(k core.Key) string {
	if k.Scopes == nil {
		return "all"
	}
	names := make([]string, len(k.Scopes))
	for i, scope := range k.Scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, ",")
}
