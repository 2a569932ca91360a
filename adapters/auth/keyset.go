package auth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/boxwright/boxwright/core"
)

// When an issuer's keys are fetched.
const (
	fresh      = 10 * time.Minute // after that they are fetched again, beside the requests
	oldest     = 24 * time.Hour   // an issuer may be away so long
	pause      = 10 * time.Second // between two attempts: tokens with made-up ids of keys cause no more
	fetchLimit = 10 * time.Second // of one attempt
	maxAnswer  = 1 << 20          // bytes of one answer of the issuer
	maxKeys    = 100
)

// keySet is the keys that an issuer published last. It is go-oidc's KeySet; theirs never forgets a key that the
// issuer took back, and asks the issuer for every token with an unknown one.
type keySet struct {
	issuer     string
	algorithms []jose.SignatureAlgorithm
	client     *http.Client
	now        func() time.Time
	log        *slog.Logger

	mu     sync.Mutex
	keys   []jose.JSONWebKey
	loaded time.Time
	tried  time.Time
	away   bool          // the last attempt failed
	flight chan struct{} // closed at the end of the attempt under way; nil if there is none
}

func newKeySet(o IssuerOptions) *keySet {
	s := &keySet{issuer: o.URL, client: boundedClient(o.Client), now: o.Now, log: o.Log}
	for _, algorithm := range o.Algorithms {
		s.algorithms = append(s.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	return s
}

// errIssuerAway is the error of a token whose issuer's keys are not known.
func errIssuerAway() error {
	return core.Errorf(core.ErrUnavailable, "the issuer of tokens cannot be reached").WithHint("try again in a moment")
}

// prepare has the keys for a token, if there are any.
func (s *keySet) prepare(ctx context.Context, raw string) error {
	header, err := s.header(raw)
	if err != nil {
		return wrong("", "it is no token, or is signed in a way that is not allowed")
	}
	known, age := s.state(header)
	if known {
		if age > fresh {
			s.start() // whoever calls need not wait
		}
		return nil
	}
	if done := s.start(); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return core.ContextError(ctx)
		}
	}
	if known, _ = s.state(header); !known && s.isAway() {
		return errIssuerAway()
	}
	return nil // without a key the signature is found wrong
}

func (s *keySet) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

func (s *keySet) header(raw string) (jose.Header, error) {
	signed, err := jose.ParseSigned(raw, s.algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return jose.Header{}, errors.Join(err, errors.New("not one signature"))
	}
	return signed.Signatures[0].Header, nil
}

// state tells whether there is a key for a token, and how old the keys are.
func (s *keySet) state(header jose.Header) (known bool, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age = s.now().Sub(s.loaded)
	if s.loaded.IsZero() {
		age = oldest + 1
	}
	return age <= oldest && len(s.matching(header)) > 0, age
}

// matching are the keys that may have signed. The caller holds the lock.
func (s *keySet) matching(header jose.Header) []jose.JSONWebKey {
	var list []jose.JSONWebKey
	for _, k := range s.keys {
		if (header.KeyID == "" || k.KeyID == header.KeyID) && (k.Algorithm == "" || k.Algorithm == header.Algorithm) {
			list = append(list, k)
		}
	}
	return list
}

// VerifySignature implements oidc.KeySet.
func (s *keySet) VerifySignature(_ context.Context, raw string) ([]byte, error) {
	signed, err := jose.ParseSigned(raw, s.algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errors.New("not one allowed signature")
	}
	s.mu.Lock()
	keys := s.matching(signed.Signatures[0].Header)
	s.mu.Unlock()
	for _, k := range keys {
		if payload, err := signed.Verify(k); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made the signature")
}

// start begins an attempt to fetch the keys, or joins the one under way; nil if the last was a moment ago.
func (s *keySet) start() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != nil {
		return s.flight
	}
	if s.now().Sub(s.tried) < pause {
		return nil
	}
	done := make(chan struct{})
	s.flight, s.tried = done, s.now()
	go func() {
		keys, err := s.fetch()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flight, s.away = nil, err != nil
		if err == nil {
			s.keys, s.loaded = keys, s.now()
		} else {
			s.log.Warn("the keys of the issuer of tokens could not be fetched", "issuer", s.issuer, "error", err)
		}
		close(done)
	}()
	return done
}

// fetch asks the issuer.
func (s *keySet) fetch() ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), s.client), fetchLimit)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, s.issuer)
	if err != nil {
		return nil, err
	}
	var where struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&where); err != nil {
		return nil, err
	}
	if u, err := url.Parse(where.Keys); err != nil || !isTrusted(u) {
		return nil, errors.New("its keys are at an address that cannot be trusted")
	}
	return s.fetchKeys(ctx, where.Keys)
}

func (s *keySet) fetchKeys(ctx context.Context, address string) ([]jose.JSONWebKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, errors.New("its keys are answered with " + response.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, err
	}
	return usable(set.Keys), nil
}

// usable leaves out what must not verify a token: shared secrets, private keys, those for other ends, and kinds of
// keys that nobody knows yet.
func usable(raw []json.RawMessage) []jose.JSONWebKey {
	var keys []jose.JSONWebKey
	for _, text := range raw[:min(len(raw), maxKeys)] {
		var k jose.JSONWebKey
		if json.Unmarshal(text, &k) == nil && k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") {
			keys = append(keys, k)
		}
	}
	return keys
}

// boundedClient reads no more of an answer than an issuer has to say, and is not led where it cannot trust.
func boundedClient(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{}
	}
	bounded := *c
	bounded.Transport = boundedTransport{c.Transport}
	bounded.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if !isTrusted(next.URL) || len(via) > 3 {
			return errors.New("it redirects to an address that cannot be trusted")
		}
		return nil
	}
	return &bounded
}

type boundedTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	response, err := next.RoundTrip(request)
	if err == nil {
		response.Body = boundedBody{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

type boundedBody struct {
	io.Reader
	io.Closer
}
