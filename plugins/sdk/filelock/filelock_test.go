//go:build unix

package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*poll)
	defer cancel()
	if _, err := Lock(ctx, path); core.KindOf(err) != core.ErrTimeout {
		t.Errorf("while it is held: got %v, want a timeout", err)
	}
	time.AfterFunc(3*poll, unlock)
	unlock, err = Lock(t.Context(), path)
	if err != nil {
		t.Fatalf("once it is free: %v", err)
	}
	unlock()
}

func TestLockThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	if _, err := Lock(t.Context(), filepath.Join(dir, "none", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the folder is missing", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "other"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), link); err == nil {
		t.Error("a link was followed")
	}
}
