package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

func storedKey() core.Key {
	return core.Key{
		ID: "k1", Owner: "u-1", Label: "ann's <laptop>", Scopes: []core.Scope{core.ScopeRun}, Hash: [32]byte{1, 2, 3},
		Created: at(1), Expires: at(2), Used: at(3), Revoked: at(4), ReplacedBy: "k2",
	}
}

// withAnn is the store of a new file, with one user.
func withAnn(t *testing.T, path string) identity.Store {
	t.Helper()
	store := open(t, path).Identity()
	if err := store.AddUser(t.Context(), core.User{ID: "u-1", Name: "Ann", Role: core.RoleAdmin, Created: at(1)}); err != nil {
		t.Fatal(err)
	}
	return store
}

// TestStoredKey compares what a file holds with what files have held since keys came.
func TestStoredKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	store := withAnn(t, path)
	if err := store.AddKey(t.Context(), storedKey()); err != nil {
		t.Fatal(err)
	}
	var document, hash, used string
	if err := raw(t, path).QueryRowContext(t.Context(), "SELECT key, hex(hash), used FROM keys").Scan(&document, &hash, &used); err != nil {
		t.Fatal(err)
	}
	if want := golden(t, "key.json"); document != want {
		t.Errorf("the document is\n%s, not\n%s", document, want)
	}
	if hash != "010203"+strings.Repeat("00", 29) || used != "2026-01-02T03:04:03.000000005Z" {
		t.Errorf("hash is %s, used is %s", hash, used)
	}
}

// TestAuditIsAppendOnly: not even somebody who writes to the file by mistake changes a record.
func TestAuditIsAppendOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	store := open(t, path).Identity()
	if err := store.Append(t.Context(), core.AuditRecord{At: at(1), Principal: "u-1", Action: "run", Outcome: "ok"}); err != nil {
		t.Fatal(err)
	}
	_, err := raw(t, path).ExecContext(t.Context(), "UPDATE audit SET outcome = 'denied'")
	if err == nil || !strings.Contains(err.Error(), "never changed") {
		t.Errorf("the update returned %v", err)
	}
	list, err := store.Records(t.Context(), "", time.Time{}, 9)
	if err != nil || len(list) != 1 || list[0].Outcome != "ok" {
		t.Errorf("records are %+v, %v", list, err)
	}
}

// TestNoHalfKey: a key whose hash was cut is trouble, not one that some other secret opens.
func TestNoHalfKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	store := withAnn(t, path)
	if err := store.AddKey(t.Context(), storedKey()); err != nil {
		t.Fatal(err)
	}
	execute(t, raw(t, path), "UPDATE keys SET hash = x'01'")
	if _, _, err := store.Key(t.Context(), "k1"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("Key returned %v", err)
	}
}
