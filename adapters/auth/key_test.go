package auth_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// keyPort is embedded by a name that is none of its methods.
type keyPort = identity.Keys

// keys is an identity.Keys of a few, and of how often it was asked.
type keys struct {
	keyPort
	all     map[string]core.Key
	users   map[string]core.User
	asked   int
	touched []map[string]time.Time
	fail    error
}

func (k *keys) Key(_ context.Context, id string) (core.Key, core.User, error) {
	k.asked++
	if k.fail != nil {
		return core.Key{}, core.User{}, k.fail
	}
	found, has := k.all[id]
	if !has {
		return core.Key{}, core.User{}, identity.ErrNoKey(id)
	}
	return found, k.users[found.Owner], nil
}

func (k *keys) Touch(_ context.Context, used map[string]time.Time) error {
	k.touched = append(k.touched, used)
	return k.fail
}

// add makes a key and returns its text.
func (k *keys) add(key core.Key) (id, text string) {
	key, text = auth.NewKey(key)
	k.all[key.ID] = key
	return key.ID, text
}

func newKeys() *keys {
	return &keys{all: map[string]core.Key{}, users: map[string]core.User{
		"u-ann": {ID: "u-ann", Name: "ann", Role: core.RoleAdmin}, "u-bob": {ID: "u-bob", Name: "bob", Role: core.RoleUser, Disabled: true},
	}}
}

func keyAuthenticator(k *keys, c *clock, log *bytes.Buffer) *auth.Authenticator {
	return auth.New(auth.Options{Keys: k, Now: c.now, Log: slog.New(slog.NewTextHandler(log, nil))})
}

func TestKeyForm(t *testing.T) {
	k := newKeys()
	id, text := k.add(core.Key{Owner: "u-ann"})
	if !regexp.MustCompile(`^bxw_[a-z0-9]{12}_[a-z2-7]{52}_[0-9a-f]{8}$`).MatchString(text) || !strings.HasPrefix(text, auth.Shown(id)) {
		t.Errorf("a key is %s", text)
	}
	if stored := k.all[id]; strings.Contains(text, string(stored.Hash[:])) || stored.Hash == [32]byte{} {
		t.Errorf("it is stored as %+v", stored)
	}
	if _, other := k.add(core.Key{Owner: "u-ann"}); other[:30] == text[:30] || other[len(other)-30:] == text[len(text)-30:] {
		t.Errorf("two keys are alike: %s %s", text, other)
	}
}

func TestKey(t *testing.T) {
	k, c := newKeys(), newClock()
	a := keyAuthenticator(k, c, &bytes.Buffer{})
	id, text := k.add(core.Key{Owner: "u-ann", Scopes: []core.Scope{core.ScopeRead}})
	for range 3 {
		p, err := a.Authenticate(t.Context(), auth.Credential{Token: text})
		if err != nil || p.ID != "u-ann" || p.Name != "ann" || !p.IsUser || !p.Admin || p.Credential != id || len(p.Scopes) != 1 || p.Scopes[0] != core.ScopeRead {
			t.Errorf("got %+v, %v", p, err)
		}
	}
	if k.asked != 1 {
		t.Errorf("the store was asked %d times", k.asked)
	}
}

func TestKeyRefused(t *testing.T) {
	k, c, log := newKeys(), newClock(), &bytes.Buffer{}
	a := keyAuthenticator(k, c, log)
	_, good := k.add(core.Key{Owner: "u-ann"})
	id, _ := k.add(core.Key{Owner: "u-ann"})
	_, disabled := k.add(core.Key{Owner: "u-bob"})
	_, expired := k.add(core.Key{Owner: "u-ann", Expires: c.now()})
	_, revoked := k.add(core.Key{Owner: "u-ann", Revoked: c.now()})
	_, unknown := auth.NewKey(core.Key{})
	_, wrongSecret := k.add(core.Key{Owner: "u-ann"})
	for at := range k.all {
		if strings.Contains(wrongSecret, at) {
			other, _ := auth.NewKey(core.Key{})
			changed := k.all[at]
			changed.Hash = other.Hash
			k.all[at] = changed
		}
	}
	for name, tt := range map[string]struct{ token, why string }{
		"unknown":        {unknown, "no key with this id"},
		"another secret": {wrongSecret, "the secret is another one"},
		"expired":        {expired, "expired"},
		"revoked":        {revoked, "revoked"},
		"disabled":       {disabled, "its user is disabled"},
		"a byte changed": {good[:20] + swap(good[20]) + good[21:], "not a whole key"},
		"cut":            {good[:len(good)-1], "not a whole key"},
		"longer":         {good + "0", "not a whole key"},
		"the prefix":     {"bxw_", "not a whole key"},
		"an id alone":    {"bxw_" + id, "not a whole key"},
		"of no kind":     {"hunter2", "of no kind"},
	} {
		log.Reset()
		p, err := a.Authenticate(t.Context(), auth.Credential{Token: tt.token, RemoteAddr: "192.0.2.1"})
		if core.KindOf(err) != core.ErrDenied || err.Error() != refusal || p.ID != "" {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
		if !strings.Contains(log.String(), tt.why) || len(tt.token) > 60 && strings.Contains(log.String(), tt.token[17:60]) {
			t.Errorf("%s: the log says %s", name, log)
		}
	}
}

func swap(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

// TestKeyTakenBack: what other processes change counts a moment later.
func TestKeyTakenBack(t *testing.T) {
	k, c := newKeys(), newClock()
	a := keyAuthenticator(k, c, &bytes.Buffer{})
	id, text := k.add(core.Key{Owner: "u-ann", Expires: c.now().Add(time.Hour)})
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: text}); err != nil {
		t.Fatal(err)
	}
	revoked := k.all[id]
	revoked.Revoked = c.now()
	k.all[id] = revoked
	c.pass(2 * time.Second)
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: text}); core.KindOf(err) != core.ErrDenied {
		t.Errorf("got %v", err)
	}
}

// TestKeyExpiresInTime: that it is known does not make it last.
func TestKeyExpiresInTime(t *testing.T) {
	k, c := newKeys(), newClock()
	a := keyAuthenticator(k, c, &bytes.Buffer{})
	_, text := k.add(core.Key{Owner: "u-ann", Expires: c.now().Add(time.Second)})
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: text}); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Second)
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: text}); core.KindOf(err) != core.ErrDenied {
		t.Errorf("got %v", err)
	}
}

func TestKeysCannotBeLookedUp(t *testing.T) {
	k, log := newKeys(), &bytes.Buffer{}
	k.fail = errors.New("disk on fire")
	_, text := k.add(core.Key{Owner: "u-ann"})
	_, err := keyAuthenticator(k, newClock(), log).Authenticate(t.Context(), auth.Credential{Token: text})
	if core.KindOf(err) != core.ErrUnavailable || strings.Contains(err.Error(), "fire") || !strings.Contains(log.String(), "fire") {
		t.Errorf("got %v; the log says %s", err, log)
	}
}

// TestUsesAreKeptOnceAMinute: many calls are one write, and none while nobody calls.
func TestUsesAreKeptOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeys()
		a := auth.New(auth.Options{Keys: k, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		go a.KeepUses(ctx)
		id, text := k.add(core.Key{Owner: "u-ann"})
		var last time.Time
		for range 100 {
			last = time.Now()
			if _, err := a.Authenticate(t.Context(), auth.Credential{Token: text}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(k.touched) != 2 || !k.touched[1][id].Equal(last) {
			t.Errorf("kept were %v, the last use was %v", k.touched, last)
		}
		stop()
	})
}

// TestUsesThatCannotBeKept are kept later.
func TestUsesThatCannotBeKept(t *testing.T) {
	k, c := newKeys(), newClock()
	a := keyAuthenticator(k, c, &bytes.Buffer{})
	id, text := k.add(core.Key{Owner: "u-ann"})
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: text}); err != nil {
		t.Fatal(err)
	}
	k.fail = errors.New("no")
	a.Flush(t.Context())
	k.fail = nil
	a.Flush(t.Context())
	a.Flush(t.Context())
	if len(k.touched) != 2 || !k.touched[1][id].Equal(c.now()) {
		t.Errorf("kept were %v", k.touched)
	}
}

func FuzzAuthenticate(f *testing.F) {
	k, c := newKeys(), newClock()
	_, text := k.add(core.Key{Owner: "u-ann"})
	a := keyAuthenticator(k, c, &bytes.Buffer{})
	f.Add(text + "x")
	f.Add("bxw_setup__")
	f.Fuzz(func(t *testing.T, token string) {
		if token == text {
			return
		}
		if p, err := a.Authenticate(t.Context(), auth.Credential{Token: token}); core.KindOf(err) != core.ErrDenied || p.ID != "" {
			t.Errorf("%q: got %+v, %v", token, p, err)
		}
	})
}

func BenchmarkKnownKey(b *testing.B) {
	k, c := newKeys(), newClock()
	a := keyAuthenticator(k, c, &bytes.Buffer{})
	_, text := k.add(core.Key{Owner: "u-ann"})
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), auth.Credential{Token: text}); err != nil {
			b.Fatal(err)
		}
	}
}
