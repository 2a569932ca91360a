package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/core"
)

const audience = "https://boxwright.example/mcp"

// issuer is a small one that answers on the loopback.
type issuer struct {
	*httptest.Server
	rsa   *rsa.PrivateKey
	ecdsa *ecdsa.PrivateKey
	asked atomic.Int64 // for its keys
	down  atomic.Bool

	mu        sync.Mutex
	published []any
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if i.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"HS256", "none"},
		})
	})
	routes.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.published})
	})
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	i.publish(
		map[string]any{"kty": "new", "kid": "future"},
		jose.JSONWebKey{Key: []byte("a shared secret of thirty-two byt"), KeyID: "shared", Algorithm: "HS256"},
		jose.JSONWebKey{Key: i.rsa.Public(), KeyID: "r1", Algorithm: "RS256", Use: "sig"},
		jose.JSONWebKey{Key: i.ecdsa.Public(), KeyID: "e1"},
	)
	return i
}

func (i *issuer) publish(keys ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published = keys
}

// sign makes a token.
func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is an authenticator of tokens, with its log.
type bench struct {
	*issuer
	*clock
	*auth.Authenticator
	log *bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{issuer: newIssuer(t), clock: newClock(), log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	i, err := auth.NewIssuer(auth.IssuerOptions{
		URL: b.URL, Audience: audience, Skew: time.Minute, Now: b.now, Log: slog.New(slog.DiscardHandler),
		Claims: auth.ClaimOptions{Roles: "realm_access.roles", Admins: []string{"ops"}, Scopes: "scope", Prefix: "bw:", Usual: []core.Scope{core.ScopeRead}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Authenticator = auth.New(auth.Options{Issuer: i, Now: b.now, Log: log})
	return b
}

// claims are those of a good token, changed.
func (b *bench) claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": b.URL, "sub": "ann", "aud": []string{"other", audience}, "iat": b.now().Unix(), "exp": b.now().Add(time.Hour).Unix(),
		"scope": "openid bw:run bw:everything run", "preferred_username": "Ann", "azp": "editor",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (b *bench) who(token string) (core.Principal, error) {
	return b.Authenticate(context.Background(), auth.Credential{Token: token, RemoteAddr: "192.0.2.1"})
}

func (b *bench) rs(t *testing.T, changes map[string]any) string {
	t.Helper()
	return sign(t, jose.RS256, b.rsa, "r1", b.claims(changes))
}

func TestToken(t *testing.T) {
	b := newBench(t)
	for name, token := range map[string]string{
		"RS256": b.rs(t, nil), "ES256": sign(t, jose.ES256, b.ecdsa, "e1", b.claims(nil)),
		"no kid": sign(t, jose.RS256, b.rsa, "", b.claims(nil)), "one audience": b.rs(t, map[string]any{"aud": audience}),
		"a minute late": b.rs(t, map[string]any{"exp": b.now().Add(-59 * time.Second).Unix()}), "a minute early": b.rs(t, map[string]any{"nbf": b.now().Add(59 * time.Second).Unix()}),
	} {
		for range 2 { // the second time it is known
			p, err := b.who(token)
			if err != nil || p.ID != b.URL+"|ann" || p.Name != "Ann" || p.Admin || !slices.Equal(p.Scopes, []core.Scope{core.ScopeRun}) || p.Credential != "token/editor" {
				t.Errorf("%s: got %+v, %v\n%s", name, p, err, b.log)
			}
		}
	}
	if n := b.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times for its keys", n)
	}
}

func TestTokenRefused(t *testing.T) {
	b := newBench(t)
	stranger := newIssuer(t)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: mustDER(t, b.rsa.Public())})
	later, before := b.now().Add(2*time.Minute).Unix(), b.now().Add(-2*time.Minute).Unix()
	good := b.rs(t, nil)
	part := strings.Split(good, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + part[1] + "."
	for name, c := range map[string]struct{ token, why string }{
		"another audience":    {b.rs(t, map[string]any{"aud": "https://other.example"}), "audience"},
		"no audience":         {b.rs(t, map[string]any{"aud": nil}), "audience"},
		"expired":             {b.rs(t, map[string]any{"exp": before}), "expired"},
		"no end":              {b.rs(t, map[string]any{"exp": nil}), "no end"},
		"not yet valid":       {b.rs(t, map[string]any{"nbf": later}), "not valid yet"},
		"made later":          {b.rs(t, map[string]any{"iat": later}), "not valid yet"},
		"no subject":          {b.rs(t, map[string]any{"sub": nil}), "no subject"},
		"another issuer":      {sign(t, jose.RS256, stranger.rsa, "r1", b.claims(map[string]any{"iss": stranger.URL})), "no key of the issuer"},
		"another says it":     {sign(t, jose.RS256, stranger.rsa, "r1", b.claims(nil)), "no key of the issuer"},
		"named another":       {b.rs(t, map[string]any{"iss": stranger.URL}), "different provider"},
		"unknown kid":         {sign(t, jose.RS256, b.rsa, "r2", b.claims(nil)), "no key of the issuer"},
		"another key's kid":   {sign(t, jose.RS256, b.rsa, "e1", b.claims(nil)), "no key of the issuer"},
		"HS256, public key":   {sign(t, jose.HS256, public, "r1", b.claims(nil)), "not allowed"},
		"HS256, published":    {sign(t, jose.HS256, []byte("a shared secret of thirty-two byt"), "shared", b.claims(nil)), "not allowed"},
		"RS512":               {sign(t, jose.RS512, b.rsa, "r1", b.claims(nil)), "not allowed"},
		"alg none":            {unsigned, "not allowed"},
		"alg none, signature": {unsigned + part[2], "not allowed"},
		"other claims":        {part[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"bob"}`)) + "." + part[2], "no key of the issuer"},
		"no signature":        {part[0] + "." + part[1] + ".", "no key of the issuer"},
		"garbage":             {"a.b.c", "no token"},
		"nothing":             {"", "no kind"},
		"too long":            {strings.Repeat("a.", 16<<10), "too long"},
		"a key":               {"bxw_abc", "no kind"},
	} {
		b.log.Reset()
		p, err := b.who(c.token)
		if core.KindOf(err) != core.ErrDenied || p.ID != "" || err.Error() != refusal {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
		if !strings.Contains(b.log.String(), c.why) || !strings.Contains(b.log.String(), "192.0.2.1") || c.token != "" && strings.Contains(b.log.String(), c.token) {
			t.Errorf("%s: the log says %s, want %q", name, b.log, c.why)
		}
	}
}

// refusal is what every bearer of a bad credential is told.
const refusal = "the key or token is not valid (ask the operator for a new one; the server's log says what is wrong with this one)"

func mustDER(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestClaims(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		claims map[string]any
		admin  bool
		scopes []core.Scope
	}{
		"an admin":             {map[string]any{"realm_access": map[string]any{"roles": []string{"x", "ops"}}, "scope": "bw:admin"}, true, []core.Scope{core.ScopeAdmin}},
		"roles as a text":      {map[string]any{"realm_access.roles": "x ops", "scope": []string{"bw:read"}}, true, []core.Scope{core.ScopeRead}},
		"no admin":             {map[string]any{"realm_access": "ops", "scope": "bw:admin"}, false, []core.Scope{core.ScopeAdmin}},
		"no scope that counts": {map[string]any{"scope": "openid"}, false, []core.Scope{}},
		"no claim of scopes":   {map[string]any{"scope": nil}, false, []core.Scope{core.ScopeRead}},
	} {
		p, err := b.who(b.rs(t, c.claims))
		if err != nil || p.Admin != c.admin || p.Scopes == nil || !slices.Equal(p.Scopes, c.scopes) {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
		if p.Allows(core.ScopeAdmin) != (name == "an admin") {
			t.Errorf("%s: is it an admin? %+v", name, p)
		}
	}
}

// TestSubjects: every subject is another principal, and none has the id of a user.
func TestSubjects(t *testing.T) {
	b := newBench(t)
	seen := map[string]bool{}
	for _, subject := range []string{"ann", "Ann", "a b", "a+b", "a%20b", "a|b", "ü", "\x1b[31m", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		p, err := b.who(b.rs(t, map[string]any{"sub": subject}))
		if err != nil || core.CheckPrincipalID(p.ID) != nil || seen[p.ID] || strings.HasPrefix(p.ID, "user-") {
			t.Errorf("%.20q is %q, %v", subject, p.ID, err)
		}
		seen[p.ID] = true
	}
}

// TestIssuerAway: what is known goes on to count, and the rest cannot be told, which is no refusal.
func TestIssuerAway(t *testing.T) {
	b := newBench(t)
	b.down.Store(true)
	if _, err := b.who(b.rs(t, nil)); core.KindOf(err) != core.ErrUnavailable || core.RetryAfterOf(err) == 0 {
		t.Errorf("at first: got %v", err)
	}
	b.down.Store(false)
	if _, err := b.who(b.rs(t, nil)); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("a moment later nobody asks again: got %v", err)
	}
	b.pass(time.Minute)
	if _, err := b.who(b.rs(t, nil)); err != nil {
		t.Errorf("once it is back: %v", err)
	}
	b.down.Store(true)
	b.pass(2 * time.Hour)
	if _, err := b.who(b.rs(t, nil)); err != nil {
		t.Errorf("with keys of a while ago: %v", err)
	}
	b.pass(time.Minute)
	if _, err := b.who(sign(t, jose.RS256, b.rsa, "r2", b.claims(nil))); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("with a key that may be new: %v", err)
	}
	b.pass(24 * time.Hour)
	if _, err := b.who(b.rs(t, nil)); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("with keys of yesterday: %v", err)
	}
}

// TestIssuerRotates: a new key counts at once, one that was taken back no longer, and made-up ones cost the issuer
// nothing.
func TestIssuerRotates(t *testing.T) {
	b := newBench(t)
	if _, err := b.who(b.rs(t, nil)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := b.who(sign(t, jose.ES256, b.ecdsa, rand.Text(), b.claims(nil))); core.KindOf(err) != core.ErrDenied {
			t.Fatal(err)
		}
	}
	if n := b.asked.Load(); n > 2 {
		t.Errorf("the issuer was asked %d times for its keys", n)
	}
	b.pass(time.Minute)
	b.publish(jose.JSONWebKey{Key: b.ecdsa.Public(), KeyID: "e2"})
	if _, err := b.who(sign(t, jose.ES256, b.ecdsa, "e2", b.claims(nil))); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := b.who(b.rs(t, map[string]any{"sub": "bob"})); core.KindOf(err) != core.ErrDenied {
		t.Errorf("the old key: %v", err)
	}
}

func TestIssuerOptions(t *testing.T) {
	for _, o := range []auth.IssuerOptions{
		{URL: "http://issuer.example", Audience: "a"},
		{URL: "issuer.example", Audience: "a"},
		{URL: "https://ann:x@issuer.example", Audience: "a"},
		{URL: "https://issuer.example"},
		{URL: "https://issuer.example", Audience: "a", Algorithms: []string{"HS256"}},
		{URL: "https://issuer.example", Audience: "a", Algorithms: []string{"none"}},
	} {
		if _, err := auth.NewIssuer(o); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}
