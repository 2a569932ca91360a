package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
	"github.com/boxwright/boxwright/ports/identity"
)

// shell runs commands on one state folder.
type shell struct {
	t   *testing.T
	dir string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	withoutSettings(t)
	s := &shell{t: t, dir: t.TempDir()}
	t.Setenv("BOXWRIGHT_STORAGE_DIR", s.dir)
	return s
}

func (s *shell) try(line string) (out, told string, err error) {
	var stdout, stderr bytes.Buffer
	c := command()
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SetArgs(strings.Fields(line))
	err = c.ExecuteContext(s.t.Context())
	return stdout.String(), stderr.String(), err
}

func (s *shell) run(line string) string {
	s.t.Helper()
	out, _, err := s.try(line)
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return out
}

// store is the file that the commands work on.
func (s *shell) store() identity.Store {
	s.t.Helper()
	database, err := sqlite.Open(filepath.Join(s.dir, databaseFile), sqlite.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = database.Close() })
	return database.Identity()
}

// who asks a server that starts now who shows a key.
func (s *shell) who(key string) (core.Principal, error) {
	s.t.Helper()
	a, err := newAuthenticator(config.Auth{Mode: config.AuthKeys}, s.store(), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Flush(s.t.Context())
	return a.Authenticate(s.t.Context(), auth.Credential{Token: strings.TrimSpace(key)})
}

func (s *shell) wants(key, name string, admin bool) {
	s.t.Helper()
	if p, err := s.who(key); err != nil || p.Name != name || p.Admin != admin || !strings.HasPrefix(p.ID, "user-") {
		s.t.Errorf("the key is of %+v, %v; want %s", p, err, name)
	}
}

func (s *shell) refuses(key, why string) {
	s.t.Helper()
	if p, err := s.who(key); core.KindOf(err) != core.ErrDenied {
		s.t.Errorf("%s: the key is of %+v, %v", why, p, err)
	}
}

func TestKeysOfUsers(t *testing.T) {
	s := newShell(t)
	if out := s.run("users add ann"); out != "added ann (user, enabled)\n" {
		t.Errorf("got %q", out)
	}
	key, told, err := s.try("keys create ann --label laptop --scope run,read --expires 1h")
	if err != nil || !regexp.MustCompile(`^bxw_\S{74}\n$`).MatchString(key) || !strings.Contains(told, "not shown again") || strings.Contains(told, strings.TrimSpace(key)) {
		t.Fatalf("got %q and %q, %v", key, told, err)
	}
	s.wants(key, "ann", false)
	s.run("users role ann admin")
	s.wants(key, "ann", true)
	s.run("users disable ANN")
	s.refuses(key, "disabled")
	s.run("users enable ann")
	s.wants(key, "ann", true)
	list := s.run("keys list ann")
	if !regexp.MustCompile(`bxw_\w{12} +ann +active +run,read +\d{4}-.* laptop\n$`).MatchString(list) || strings.Contains(list, key[20:60]) || strings.Contains(list, " - ") {
		t.Errorf("the list is\n%s", list)
	}
	s.run("keys revoke " + key[:16])
	s.refuses(key, "revoked")
	other := s.run("keys create ann")
	s.wants(other, "ann", true)
	s.run("users remove ann")
	s.refuses(other, "removed")
	s.run("users add ann")
	s.refuses(other, "another of the same name")
	if out := s.run("keys list"); out != "there are no keys; boxwright keys create makes one\n" {
		t.Errorf("got %q", out)
	}
}

func TestKeysRotate(t *testing.T) {
	s := newShell(t)
	s.run("users add ann")
	old := s.run("keys create ann --label ci --scope run --expires 1h")
	next := s.run("keys rotate " + old[:16] + " --overlap 10m")
	s.wants(old, "ann", false)
	s.wants(next, "ann", false)
	var list []shownKey
	if err := json.Unmarshal([]byte(s.run("keys list --json")), &list); err != nil || len(list) != 2 {
		t.Fatal(err, list)
	}
	first, second := list[0], list[1]
	if first.State != core.KeyRotated || first.ReplacedBy != second.ID || time.Until(first.Expires) > 10*time.Minute || second.Label != "ci" || second.State != core.KeyActive {
		t.Errorf("the keys are %+v", list)
	}
	if left := time.Until(second.Expires); left > time.Hour || left < 50*time.Minute || len(second.Scopes) != 1 || first.Key+second.Key != "" {
		t.Errorf("the new key is %+v", second)
	}
	if _, _, err := s.try("keys rotate " + old[:16]); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("a second time: %v", err)
	}
	last := s.run("keys rotate " + next[:16] + " --overlap 0s --json")
	s.refuses(next, "without overlap")
	var made shownKey
	if err := json.Unmarshal([]byte(last), &made); err != nil || made.User != "ann" {
		t.Fatalf("%v in %s", err, last)
	}
	s.wants(made.Key, "ann", false)
}

func TestUsersList(t *testing.T) {
	s := newShell(t)
	if out := s.run("users list"); out != "there are no users; boxwright users add makes one\n" {
		t.Errorf("got %q", out)
	}
	s.run("users add bob")
	s.run("users add ann --role admin --json")
	if out := s.run("users list"); !regexp.MustCompile(`^NAME .*\nann +admin +enabled +\d{4}-.*user-\w+\nbob +user +enabled`).MatchString(out) {
		t.Errorf("got\n%s", out)
	}
	var list []shownUser
	if err := json.Unmarshal([]byte(s.run("users list --json")), &list); err != nil || len(list) != 2 || list[0].Name != "ann" || list[0].Role != core.RoleAdmin {
		t.Errorf("got %v, %v", list, err)
	}
}

// forgetful is a store that takes no records.
type forgetful struct{ identity.Store }

func (forgetful) Append(context.Context, core.AuditRecord) error {
	return core.Errorf(core.ErrUnavailable, "the disk is full")
}

// A key that was made is printed, also where its record cannot be kept: it is not shown again.
func TestMadeKeysArePrinted(t *testing.T) {
	s := newShell(t)
	s.run("users add ann")
	var out bytes.Buffer
	c := command()
	c.SetContext(t.Context())
	c.SetOut(&out)
	c.SetErr(io.Discard)
	p := people{forgetful{s.store()}, t.Context()}
	for name, do := range map[string]func() error{
		"create": func() error { return new(keyFlags).create(c, p, "ann") },
		"rotate": func() error { return new(identityFlags).rotate(c, p, s.run("keys create ann")[:16], 0) },
	} {
		out.Reset()
		if err := do(); core.KindOf(err) != core.ErrUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		s.wants(out.String(), "ann", false)
	}
}

func TestIdentityRefusals(t *testing.T) {
	s := newShell(t)
	s.run("users add ann")
	for line, want := range map[string]string{
		"users add ann":                     "there is a user \"ann\" already",
		"users add":                         "needs one NAME",
		"users add x --role king":           "there is no role",
		"users role ann":                    "needs a NAME and a role",
		"users role ann king":               "there is no role",
		"users disable bob":                 "there is no user \"bob\"",
		"users nothing":                     "there is no command",
		"keys create bob":                   "there is no user \"bob\"",
		"keys create ann --scope all":       "there is no scope",
		"keys create ann --scope=":          "--scope is empty",
		"keys create ann --expires -1h":     "must not be below 0",
		"keys rotate bxw_x":                 "there is no key \"x\"",
		"keys revoke x":                     "there is no key \"x\"",
		"keys list a b":                     "one USER at most",
		"keys create ann --expires forever": "see boxwright keys create --help",
	} {
		if out, _, err := s.try(line); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: got %q, %v; want %q", line, out, err, want)
		}
	}
	if out := s.run("keys list"); !strings.HasPrefix(out, "there are no keys") {
		t.Errorf("got %s", out)
	}
}

// TestOperatorsAreAudited: each thing that was done is one record, without any secret.
func TestOperatorsAreAudited(t *testing.T) {
	s := newShell(t)
	s.run("users add ann")
	key := s.run("keys create ann")
	s.run("keys rotate " + key[:16])
	s.run("keys revoke " + key[:16])
	s.run("users role ann admin")
	s.run("users disable ann")
	s.run("users enable ann")
	s.run("users remove ann")
	_, _, _ = s.try("users remove ann")
	records, err := s.store().Records(t.Context(), operator, time.Time{}, 99)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range records {
		got = r.Action + " " + got
		if strings.Contains(r.Target, key[20:60]) || !strings.Contains(r.Target, "ann") || r.Outcome != "ok" {
			t.Errorf("a record is %+v", r)
		}
	}
	if want := "user.add key.create key.rotate key.revoke user.role user.disable user.enable user.remove "; got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestUseIsKept: when a key was used last is told, once a server has kept it.
func TestUseIsKept(t *testing.T) {
	s := newShell(t)
	s.run("users add ann")
	key := s.run("keys create ann")
	s.wants(key, "ann", false)
	var list []shownKey
	if err := json.Unmarshal([]byte(s.run("keys list --json")), &list); err != nil || len(list) != 1 || time.Since(list[0].Used) > time.Hour {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestFirstAdministrator is made by a token that the server prints when it starts, once.
func TestFirstAdministrator(t *testing.T) {
	s := newShell(t)
	var log bytes.Buffer
	server := &system{identity: s.store(), log: slog.New(slog.NewTextHandler(&log, nil))}
	start := func(mode string) string {
		log.Reset()
		if err := server.offerSetup(context.Background(), config.Auth{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`bxw_setup_\w+`).FindString(log.String())
	}
	if token := start(config.AuthNone) + start(config.AuthOIDC); token != "" {
		t.Errorf("a token was printed where no keys count: %s", token)
	}
	first, second := start(config.AuthKeys), start(config.AuthKeys)
	redeem := func(token string) (status int, key string) {
		w := httptest.NewRecorder()
		body := strings.NewReader(`{"token": "` + token + `", "name": "root"}`)
		server.setup().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/setup", body))
		var answer struct {
			Key string `json:"key"`
		}
		text, _ := io.ReadAll(w.Body)
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		return w.Code, answer.Key
	}
	if status, _ := redeem(first); status != http.StatusForbidden {
		t.Errorf("the token of an earlier start: %d", status)
	}
	status, key := redeem(second)
	if status != http.StatusCreated {
		t.Fatalf("the token: %d", status)
	}
	s.wants(key, "root", true)
	if status, _ := redeem(second); status != http.StatusForbidden {
		t.Errorf("the token once more: %d", status)
	}
	if token := start(config.AuthKeys); token != "" {
		t.Errorf("a token was printed although there is an administrator: %s", token)
	}
}

// TestAuthOfSettings: each mode counts what it says.
func TestAuthOfSettings(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if a, err := newAuthenticator(config.Auth{Mode: config.AuthNone}, nil, log); a != nil || err != nil {
		t.Errorf("none: got %v, %v", a, err)
	}
	c := config.Default().Auth
	c.Mode, c.OIDC.Issuer, c.OIDC.Audience = config.AuthOIDC, "https://issuer.example", "https://boxwright.example"
	a, err := newAuthenticator(c, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	_, key := auth.NewKey(core.Key{})
	if _, err := a.Authenticate(t.Context(), auth.Credential{Token: key}); core.KindOf(err) != core.ErrDenied {
		t.Errorf("a key where only tokens count: %v", err)
	}
}

// TestServersSeeUsers: also one that keeps everything else in memory knows the keys of the state folder.
func TestServersSeeUsers(t *testing.T) {
	s := newShell(t)
	s.run("users add ann")
	storage := config.Storage{Dir: s.dir, Sessions: inMemory, Environments: inMemory}
	for mode, want := range map[string]int{config.AuthNone: 0, config.AuthKeys: 1} {
		server := &system{}
		if err := server.openDatabase(storage, config.Auth{Mode: mode}, ""); err != nil {
			t.Fatal(err)
		}
		if users, err := server.identity.Users(t.Context()); err != nil || len(users) != want {
			t.Errorf("auth.mode %s: users are %v, %v", mode, users, err)
		}
		if err := server.database.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestQuotasOfSettings reach the use cases whole.
func TestQuotasOfSettings(t *testing.T) {
	c := config.Default()
	c.Quotas = config.Quotas{
		Boxes: 1, Runs: 2, Memory: 3, CPUSeconds: 4, CPUWindow: config.Duration(time.Hour), Files: 5, CallsPerMinute: 6,
		Principals: []config.QuotasOf{{Principal: "ann", Boxes: 7, Runs: 8, Memory: 9, CPUSeconds: 10, Files: 11, CallsPerMinute: 12}},
	}
	got := appSettings(c)
	if want := (app.Quota{Boxes: 1, Runs: 2, Memory: 3, CPU: 4 * time.Second, Files: 5, Calls: 6}); got.Quota != want || got.QuotaWindow != time.Hour {
		t.Errorf("everybody's are %+v in %v", got.Quota, got.QuotaWindow)
	}
	if want := (app.Quota{Boxes: 7, Runs: 8, Memory: 9, CPU: 10 * time.Second, Files: 11, Calls: 12}); got.Quotas["ann"] != want {
		t.Errorf("ann's are %+v", got.Quotas)
	}
}
