package auth

import (
	"slices"
	"strings"
	"unicode"

	"github.com/boxwright/boxwright/core"
)

// ClaimOptions say which claims of a token count. A name with dots leads into tables: realm_access.roles.
type ClaimOptions struct {
	// Roles is the claim with the bearer's roles, and Admins those of them that make an administrator. Without
	// either nobody with a token is one.
	Roles  string
	Admins []string
	// Scopes is the claim with what the token is for: a list, or a text with blanks. Prefix is before the names of
	// ours in it; what is not ours is left out.
	Scopes string
	Prefix string
	// Usual are the scopes of a token without that claim.
	Usual []core.Scope
}

// claims of a token.
type claims map[string]any

// principal is what the claims say, without the id. Its scopes are never nil: a token allows what it says.
func (o ClaimOptions) principal(c claims) core.Principal {
	p := core.Principal{Name: c.name(), Credential: c.credential(), Scopes: []core.Scope{}}
	for _, role := range c.texts(o.Roles) {
		p.Admin = p.Admin || slices.Contains(o.Admins, role)
	}
	if o.Scopes == "" || c.at(o.Scopes) == nil {
		p.Scopes = append(p.Scopes, o.Usual...)
		return p
	}
	for _, scope := range c.texts(o.Scopes) {
		ours, has := strings.CutPrefix(scope, o.Prefix)
		if has && slices.Contains(core.Scopes(), core.Scope(ours)) {
			p.Scopes = append(p.Scopes, core.Scope(ours))
		}
	}
	return p
}

// at is the claim by that name, or nil. A whole name that holds dots comes first.
func (c claims) at(name string) any {
	if value, has := c[name]; has {
		return value
	}
	first, rest, more := strings.Cut(name, ".")
	if inner, isTable := c[first].(map[string]any); more && isTable {
		return claims(inner).at(rest)
	}
	return nil
}

// texts are the values of a claim: a list of texts, or one text with blanks between.
func (c claims) texts(name string) []string {
	switch value := c.at(name).(type) {
	case string:
		return strings.Fields(value)
	case []any:
		var list []string
		for _, item := range value {
			if text, isText := item.(string); isText {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}

// maxName bounds what people are called, in characters.
const maxName = 64

// credential names what the bearer shows, by the program that it was given to: the next token is the same one.
func (c claims) credential() string {
	return strings.TrimSuffix("token/"+c.first("azp", "client_id"), "/")
}

// name is what people call the bearer.
func (c claims) name() string { return c.first("preferred_username", "email", "name", "sub") }

// first is the first text that there is of these claims, made harmless.
func (c claims) first(names ...string) string {
	for _, claim := range names {
		text, _ := c[claim].(string)
		if text = strings.TrimSpace(strings.Map(printable, text)); text != "" {
			runes := []rune(text)
			return string(runes[:min(len(runes), maxName)])
		}
	}
	return ""
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}
