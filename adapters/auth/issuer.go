package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/boxwright/boxwright/core"
)

// IssuerOptions say which tokens of an issuer count, and for what.
type IssuerOptions struct {
	// URL is the issuer's, to the letter as its tokens name it. What it publishes is at its
	// /.well-known/openid-configuration.
	URL string
	// Audience is what a token has to be for: this server's address.
	Audience string
	// Algorithms are how tokens may be signed; nil: RS256 and ES256. None with a shared secret is ever allowed.
	Algorithms []string
	// Skew is how far the issuer's clock may be off.
	Skew time.Duration
	// Claims say what a token lets its bearer do.
	Claims ClaimOptions
	// Client reaches the issuer; nil: one that trusts this host's authorities.
	Client *http.Client
	Now    func() time.Time
	Log    *slog.Logger
}

// Issuer verifies the tokens of one OpenID Connect issuer. It reaches out for the issuer's keys when the first token
// comes, and keeps them.
type Issuer struct {
	options  IssuerOptions
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// NewIssuer checks the options; the issuer need not be there yet.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if err := CheckIssuerURL(o.URL); err != nil {
		return nil, err
	}
	if o.Audience == "" {
		return nil, core.Errorf(core.ErrInvalid, "tokens have to be for an audience, and none is named")
	}
	if o.Algorithms == nil {
		o.Algorithms = []string{oidc.RS256, oidc.ES256}
	}
	for _, algorithm := range o.Algorithms {
		if !slices.Contains(Algorithms(), algorithm) {
			return nil, core.Errorf(core.ErrInvalid, "tokens cannot be signed with %.20q", algorithm)
		}
	}
	keys := newKeySet(o)
	return &Issuer{options: o, keys: keys, verifier: oidc.NewVerifier(o.URL, keys, &oidc.Config{
		ClientID: o.Audience, SupportedSigningAlgs: o.Algorithms,
		SkipExpiryCheck: true, // its own allows "not before" to be 5 minutes off, and the end nothing
	})}, nil
}

// Algorithms are all that tokens may be signed with: with a private key each.
func Algorithms() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
	}
}

// CheckIssuerURL refuses an issuer whose keys somebody on the way could swap.
func CheckIssuerURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || !isTrusted(u) {
		return core.Errorf(core.ErrInvalid, "%.200q is not the address of an issuer", text).
			WithHint("write https://HOST/PATH as its tokens name it; http is for one on this host only")
	}
	return nil
}

func isTrusted(u *url.URL) bool {
	local := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// verify tells who a token stands for.
func (i *Issuer) verify(ctx context.Context, raw string, now time.Time) (entry, error) {
	if err := i.keys.prepare(ctx, raw); err != nil {
		return entry{}, err
	}
	token, err := i.verifier.Verify(ctx, raw)
	if err != nil {
		return entry{}, wrong("", err.Error())
	}
	var all map[string]any
	if err := token.Claims(&all); err != nil {
		return entry{}, wrong("", "its claims cannot be read")
	}
	id, err := i.principalID(token.Subject)
	if err != nil {
		return entry{}, err
	}
	until, err := i.times(token, now)
	if err != nil {
		return entry{}, err
	}
	p := i.options.Claims.principal(claims(all))
	p.ID = id
	return entry{principal: p, until: until}, nil
}

// times checks when a token counts, and returns until when it may be remembered.
func (i *Issuer) times(token *oidc.IDToken, now time.Time) (time.Time, error) {
	var more struct {
		NotBefore json.Number `json:"nbf"`
	}
	if err := token.Claims(&more); err != nil {
		return time.Time{}, wrong("", "its times cannot be read")
	}
	skew := i.options.Skew
	notBefore, _ := more.NotBefore.Float64() // none is 0
	end := token.Expiry.Add(skew)
	switch latest := now.Add(skew); {
	case token.Expiry.Unix() <= 0:
		return time.Time{}, wrong("", "it has no end")
	case !now.Before(end):
		return time.Time{}, wrong("", "it is expired")
	case time.Unix(int64(notBefore), 0).After(latest), token.IssuedAt.After(latest):
		return time.Time{}, wrong("", "it is not valid yet")
	}
	if trusted := now.Add(trustToken); trusted.Before(end) {
		return trusted, nil
	}
	return end, nil
}

// principalID names the subject of an issuer: no other issuer's subject has the same, nor has a user.
func (i *Issuer) principalID(subject string) (string, error) {
	if subject == "" {
		return "", wrong("", "it has no subject")
	}
	id := i.options.URL + "|" + url.QueryEscape(subject)
	if core.CheckPrincipalID(id) == nil {
		return id, nil
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256|" + hex.EncodeToString(sum[:]), nil
}
