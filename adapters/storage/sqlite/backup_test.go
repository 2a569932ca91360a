package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
)

// TestBackup copies a file into which somebody writes, and reads the copy.
func TestBackup(t *testing.T) {
	path, to := filepath.Join(t.TempDir(), "sessions.db"), filepath.Join(t.TempDir(), "it's a copy%.db")
	db := open(t, path)
	if err := db.Runs().Put(t.Context(), someRun("before")); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	execute(t, other, "UPDATE runs SET owner = 'bob'") // not yet
	if err := sqlite.Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	execute(t, other, "ROLLBACK")
	if err := db.Runs().Put(t.Context(), someRun("after")); err != nil {
		t.Fatal(err)
	}
	list, err := open(t, to).Runs().List(t.Context(), "ann", time.Time{}, 9)
	if err != nil || len(list) != 1 || list[0].ID != "before" {
		t.Errorf("the copy has %+v, %v", list, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestBackupRefused writes nothing, and leaves what is there as it is.
func TestBackupRefused(t *testing.T) {
	dir := t.TempDir()
	path, damaged, kept := fileIn(dir), filepath.Join(dir, "damaged.db"), filepath.Join(dir, "kept")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{damaged: "this is not SQLite's, whatever it is called", kept: "mine"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := names(t, dir)
	for _, tt := range []struct {
		path, to string
		want     core.Kind
	}{
		{filepath.Join(dir, "missing.db"), filepath.Join(dir, "copy"), core.ErrNotFound},
		{damaged, filepath.Join(dir, "copy"), core.ErrUnavailable},
		{path, kept, core.ErrInvalid},
		{path, path, core.ErrInvalid},
		{path, filepath.Join(dir, "no folder", "copy"), core.ErrUnavailable},
	} {
		if err := sqlite.Backup(t.Context(), tt.path, tt.to); core.KindOf(err) != tt.want {
			t.Errorf("%s to %s returned %v, not %s", tt.path, tt.to, err, tt.want)
		}
	}
	if after := names(t, dir); after != before {
		t.Errorf("the folder had %s and has %s", before, after)
	}
	if content, err := os.ReadFile(kept); err != nil || string(content) != "mine" {
		t.Errorf("what was there is %q, %v", content, err)
	}
}

func names(t *testing.T, dir string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all += entry.Name() + " "
	}
	return all
}
