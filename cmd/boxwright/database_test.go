package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/storage/postgres/postgrestest"
	"github.com/boxwright/boxwright/core"
)

// TestBackupCommand: the copy is a database that the commands work on.
func TestBackupCommand(t *testing.T) {
	s := newShell(t)
	if _, _, err := s.try("backup x.db"); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("there is no database, but backup returned %v", err)
	}
	s.run("users add ann")
	restored := t.TempDir()
	s.run("backup " + filepath.Join(restored, databaseFile))
	s.run("users add bob")
	if out := s.run("users list --set storage.dir=" + restored); !strings.Contains(out, "ann") || strings.Contains(out, "bob") {
		t.Errorf("the copy has\n%s", out)
	}
	for _, line := range []string{"backup", "backup a b", "backup a --set storage.database=memory"} {
		if _, _, err := s.try(line); core.KindOf(err) != core.ErrInvalid && core.KindOf(err) != core.ErrUnsupported {
			t.Errorf("%s returned %v", line, err)
		}
	}
}

// TestDatabaseInMemory: nothing is written, and commands say that there is nothing they could see.
func TestDatabaseInMemory(t *testing.T) {
	s := newShell(t)
	t.Setenv("BOXWRIGHT_STORAGE_DATABASE", "memory")
	for _, line := range []string{"users add ann", "keys list", "env list"} {
		if _, _, err := s.try(line); core.KindOf(err) != core.ErrUnsupported {
			t.Errorf("%s returned %v", line, err)
		}
	}
	system := &system{log: slog.New(slog.DiscardHandler)}
	c := config.Default()
	c.Storage.Dir, c.Files.Dir, c.Storage.Database, c.Auth.Mode = s.dir, config.NoFiles, config.DatabaseMemory, config.AuthKeys
	if err := system.openStores(c, "one"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 0 {
		t.Errorf("the state folder has %v, %v", entries, err)
	}
}

// TestDatabaseInPostgres: users and keys are there, for every state folder; the address comes from a file.
func TestDatabaseInPostgres(t *testing.T) {
	server := postgrestest.Serve(t)
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(server.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BOXWRIGHT_STORAGE_DATABASE", "postgres")
	t.Setenv("BOXWRIGHT_STORAGE_POSTGRES_URL_FILE", file)
	s.run("users add ann")
	key := s.run("keys create ann")
	if out := s.run("keys list ann --set storage.dir=" + t.TempDir()); !strings.Contains(out, key[:16]) {
		t.Errorf("the keys are\n%s", out)
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 0 {
		t.Errorf("the state folder has %v, %v", entries, err)
	}
	if _, _, err := s.try("backup x.db"); core.KindOf(err) != core.ErrUnsupported {
		t.Errorf("backup returned %v", err)
	}
	server.Stop()
	if _, _, err := s.try("users list"); core.KindOf(err) != core.ErrUnavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("without its server, users list returned %v", err)
	}
}
