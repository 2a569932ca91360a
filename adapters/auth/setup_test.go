package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// setupStore is an identity.Setup.
type setupStore struct {
	hash  [32]byte
	until time.Time
	admin core.User
	key   core.Key
	done  []core.AuditRecord
}

func (s *setupStore) Append(_ context.Context, r core.AuditRecord) error {
	s.done = append(s.done, r)
	return nil
}

func (s *setupStore) Offer(_ context.Context, hash [32]byte, until time.Time) error {
	if s.admin.ID != "" {
		return identity.ErrHasAdmin()
	}
	s.hash, s.until = hash, until
	return nil
}

func (s *setupStore) Redeem(_ context.Context, hash [32]byte, now time.Time, admin core.User, key core.Key) error {
	if s.admin.ID != "" || hash != s.hash || !now.Before(s.until) {
		return identity.ErrNotRedeemed()
	}
	if err := core.CheckUser(admin); err != nil {
		return err
	}
	s.admin, s.key = admin, key
	return nil
}

func TestSetup(t *testing.T) {
	store, c := &setupStore{}, newClock()
	setup := auth.Setup{Store: store, Now: c.now, Log: slog.New(slog.DiscardHandler)}
	token, until, err := setup.Offer(t.Context())
	if err != nil || !until.Equal(c.now().Add(24*time.Hour)) || !strings.HasPrefix(token, "bxw_setup_") || strings.Contains(token, string(store.hash[:])) {
		t.Fatalf("Offer returned %q, %v, %v", token, until, err)
	}
	other, _ := auth.NewKey(core.Key{})
	_, text := auth.NewKey(core.Key{})
	for _, wrong := range []string{"", token[:len(token)-1], text, other.ID} {
		if _, key, err := setup.Redeem(t.Context(), wrong, "root"); core.KindOf(err) != core.ErrDenied || key != "" {
			t.Errorf("Redeem of %q returned %q, %v", wrong, key, err)
		}
	}
	if _, _, err := setup.Redeem(t.Context(), token, "a b"); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("Redeem with a faulty name returned %v", err)
	}
	admin, key, err := setup.Redeem(t.Context(), token, "root")
	if err != nil || admin.Role != core.RoleAdmin || store.admin != admin || store.key.Owner != admin.ID || !strings.HasPrefix(key, auth.Shown(store.key.ID)+"_") {
		t.Fatalf("Redeem returned %+v, %q, %v", admin, key, err)
	}
	if done := store.done; len(done) != 1 || done[0].Principal != admin.ID || done[0].Action != "user.setup" || strings.Contains(done[0].Target, key) {
		t.Errorf("the audit log has %+v", done)
	}
	if _, _, err := setup.Redeem(t.Context(), token, "root2"); core.KindOf(err) != core.ErrDenied {
		t.Errorf("a second Redeem returned %v", err)
	}
	if token, _, err := setup.Offer(t.Context()); token != "" || err != nil {
		t.Errorf("Offer to a server with an administrator returned %q, %v", token, err)
	}
}

// TestSetupTokenIsNoKey: it opens the one door.
func TestSetupTokenIsNoKey(t *testing.T) {
	c := newClock()
	token, _, err := auth.Setup{Store: &setupStore{}, Now: c.now, Log: slog.New(slog.DiscardHandler)}.Offer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := keyAuthenticator(newKeys(), c, &bytes.Buffer{})
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: token}); core.KindOf(err) != core.ErrDenied {
		t.Errorf("got %v", err)
	}
}

func TestSetupRoute(t *testing.T) {
	store, c := &setupStore{}, newClock()
	setup := auth.Setup{Store: store, Now: c.now, Log: slog.New(slog.DiscardHandler)}
	token, _, err := setup.Offer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.pass(23 * time.Hour)
	for _, tt := range []struct {
		method, body string
		status       int
		want         string
	}{
		{http.MethodGet, "", 405, "POST"},
		{http.MethodPost, "{", 400, "token and name"},
		{http.MethodPost, "{}", 400, "lacks its token"},
		{http.MethodPost, `{"token": "x", "nom": "root"}`, 400, "token and name"},
		{http.MethodPost, `{"token": "` + strings.Repeat("x", 17<<10) + `"}`, 400, "token and name"},
		{http.MethodPost, `{"token": "x", "name": "root"}`, 403, "not good any more"},
		{http.MethodPost, `{"token": "` + token + `", "name": ""}`, 400, "not a name"},
		{http.MethodPost, `{"token": "` + token + `", "name": "root"}`, 201, `"key":"bxw_`},
		{http.MethodPost, `{"token": "` + token + `", "name": "root"}`, 403, "not good any more"},
	} {
		w := httptest.NewRecorder()
		setup.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, "/setup", strings.NewReader(tt.body)))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || !json.Valid(w.Body.Bytes()) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %.60s: got %d %s", tt.method, tt.body, w.Code, w.Body)
		}
	}
}
