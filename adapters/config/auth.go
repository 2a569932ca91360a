package config

import (
	"net/url"
	"slices"

	"github.com/boxwright/boxwright/core"
)

// The modes of auth.
const (
	AuthNone = "none"
	AuthKeys = "keys"
	AuthOIDC = "oidc"
	AuthBoth = "both"
)

// Auth says who may call over HTTP.
type Auth struct {
	// Mode is what counts: keys of this server, tokens of an OpenID Connect issuer, or both. none: everybody who can
	// connect, which has to be this machine alone.
	Mode string `koanf:"mode" allowed:"none,keys,oidc,both"`
	// OIDC says which tokens count, and for what.
	OIDC OIDC `koanf:"oidc"`
}

// OIDC says which tokens of an issuer count.
type OIDC struct {
	// Issuer is the issuer's URL, to the letter as its tokens name it.
	Issuer string `koanf:"issuer"`
	// Audience is what tokens have to be for: as a rule the address of this server.
	Audience string `koanf:"audience"`
	// Algorithms are how tokens may be signed.
	Algorithms []string `koanf:"algorithms"`
	// ClockSkew is how far the issuer's clock may be off.
	ClockSkew Duration `koanf:"clock_skew"`
	// RoleClaim is the claim with the bearer's roles. Dots lead into tables.
	RoleClaim string `koanf:"role_claim"`
	// AdminRoles are the roles that make an administrator.
	AdminRoles []string `koanf:"admin_roles"`
	// ScopeClaim is the claim with what the token is for. Dots lead into tables.
	ScopeClaim string `koanf:"scope_claim"`
	// ScopePrefix is before the names of ours in it.
	ScopePrefix string `koanf:"scope_prefix"`
	// DefaultScopes are those of a token without that claim.
	DefaultScopes []string `koanf:"default_scopes"`
}

// Audit says what is kept of what was done.
type Audit struct {
	// Code is what of a program's code is kept.
	Code string `koanf:"code" allowed:"hash,full,none"`
	// Keep is how long records are kept. 0: for ever.
	Keep Duration `koanf:"keep"`
}

func defaultAuth() Auth {
	return Auth{Mode: AuthNone, OIDC: OIDC{
		Algorithms: []string{"RS256", "ES256"}, ClockSkew: seconds(60), RoleClaim: "roles", AdminRoles: []string{}, ScopeClaim: "scope",
		DefaultScopes: []string{string(core.ScopeRun), string(core.ScopeRead)},
	}}
}

// UsesKeys reports whether keys count.
func (a Auth) UsesKeys() bool { return a.Mode == AuthKeys || a.Mode == AuthBoth }

// UsesTokens reports whether tokens of an issuer count.
func (a Auth) UsesTokens() bool { return a.Mode == AuthOIDC || a.Mode == AuthBoth }

// Scopes returns default_scopes.
func (o OIDC) Scopes() []core.Scope {
	list := []core.Scope{}
	for _, scope := range o.DefaultScopes {
		list = append(list, core.Scope(scope))
	}
	return list
}

func (v *validator) auth(a Auth) {
	o := a.OIDC
	v.check(o.ClockSkew >= 0 && o.ClockSkew <= seconds(600), "auth.oidc.clock_skew is %s, but must be from 0s to 10m", o.ClockSkew)
	for _, scope := range o.Scopes() {
		v.check(slices.Contains(core.Scopes(), scope), "auth.oidc.default_scopes holds %q, but must hold run, read or admin", scope)
	}
	v.check(len(o.Algorithms) > 0, "auth.oidc.algorithms is empty, but tokens have to be signed somehow")
	for _, algorithm := range o.Algorithms {
		v.check(slices.Contains(algorithms(), algorithm), "auth.oidc.algorithms holds %q, but must hold some of %s", algorithm, algorithms())
	}
	if !a.UsesTokens() {
		return
	}
	v.check(isIssuer(o.Issuer), "auth.oidc.issuer is %q, but must be the issuer's URL: https://…, or http:// if it is on this machine", o.Issuer)
	v.check(o.Audience != "", "auth.oidc.audience is empty, but must say what tokens have to be for, such as https://boxwright.example/mcp")
}

// algorithms are those with a private key: with a shared one, who can check a token can make it.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}
}

func isIssuer(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
}

// Policy returns audit.code as the use cases understand it.
func (a Audit) Policy() core.AuditCode { return core.AuditCode(a.Code) }
