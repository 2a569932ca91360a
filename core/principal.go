package core

import (
	"context"
	"slices"
	"unicode"
)

// Scope is something that a key lets its bearer do.
type Scope string

// The scopes of keys and tokens.
const (
	ScopeRun   Scope = "run"   // run code, and all that belongs to it: sandboxes, files, packages
	ScopeRead  Scope = "read"  // see what is there: runs, files, sandboxes
	ScopeAdmin Scope = "admin" // what administrators may do, if the principal is one
)

// Scopes are all of them.
func Scopes() []Scope { return []Scope{ScopeRun, ScopeRead, ScopeAdmin} }

// Principal is who calls. What it makes is its own, and everything else is as if it were not there.
type Principal struct {
	// ID is the owner of what the principal makes: it stays as long as the principal does.
	ID   string
	Name string // for people
	// IsUser tells that the server itself knows the principal: its name is one that nobody else has.
	IsUser bool
	// Admin may look after what others own. The tools do not: there an administrator is one principal of many.
	Admin bool
	// Credential tells what it showed, such as a key's id; "" where none is needed.
	Credential string
	// Scopes bound what it may do here; nil is everything that its role allows.
	Scopes []Scope
}

// MaxPrincipalID bounds a principal's id, in bytes.
const MaxPrincipalID = 128

// Allows reports whether the credential lets the principal do that.
func (p Principal) Allows(s Scope) bool {
	if s == ScopeAdmin && !p.Admin {
		return false
	}
	return p.Scopes == nil || slices.Contains(p.Scopes, s)
}

// CheckPrincipalID refuses what cannot name an owner, as ErrInvalid.
func CheckPrincipalID(id string) error {
	if id == "" || len(id) > MaxPrincipalID {
		return Errorf(ErrInvalid, "a principal's id has 1 to %d bytes; this one has %d", MaxPrincipalID, len(id))
	}
	for _, r := range id {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) || r == ' ' {
			return Errorf(ErrInvalid, "a principal's id holds printing characters without blanks; %.100q does not", id)
		}
	}
	return nil
}

type principalKey struct{}

// WithPrincipal returns a context of calls by p. The guard of a transport sets it once it knows.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf tells who calls; false where nobody was asked, as on standard input.
func PrincipalOf(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
