package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
)

// asOrdinaryUser has the file system take this test for nobody's, whom permissions bind, until the returned
// function is called.
func asOrdinaryUser(t *testing.T, dir string) (again func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		return func() {}
	}
	const nobody = 65534
	for _, own := range []string{filepath.Dir(dir), dir} {
		if err := os.Chown(own, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread()
	if err := unix.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Fatal(err) // the thread ends with the test
		}
		runtime.UnlockOSThread()
	}
}

// TestWritableAgain: SQLite opens what may not be written for reading only, and would leave it at that.
func TestWritableAgain(t *testing.T) {
	dir := t.TempDir()
	defer asOrdinaryUser(t, dir)()
	path := filepath.Join(dir, "sessions.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	db := open(t, path)
	if err := db.Runs().Put(t.Context(), someRun("r")); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("it may not be written: Put returned %v", err)
	}
	for _, beside := range []string{"", "-wal", "-shm"} { // made with the file's own mode
		if err := os.Chmod(path+beside, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Runs().Put(t.Context(), someRun("r")); err != nil {
		t.Errorf("it may be written again: Put returned %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// smallDisk is a folder with a disk of its own, of 1 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no small disk can be made here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path, ballast := filepath.Join(dir, "sessions.db"), filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, path)
	kept := 0
	var err error
	for ; kept < 1000 && err == nil; kept++ {
		err = db.Runs().Put(t.Context(), someRun(fmt.Sprint("r", kept)))
	}
	if !errors.Is(err, core.ErrExhausted) || !strings.Contains(err.Error(), path) {
		t.Fatalf("the disk is full: Put returned %v", err)
	}
	kept--
	if _, err := sqlite.Open(filepath.Join(dir, "another.db"), sqlite.Options{}); !errors.Is(err, core.ErrExhausted) {
		t.Errorf("the disk is full: Open returned %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := db.Runs().Put(t.Context(), someRun("later")); err != nil {
		t.Errorf("there is room again: Put returned %v", err)
	}
	if list, err := db.Runs().List(t.Context(), "ann", time.Time{}, 2000); err != nil || len(list) != kept+1 {
		t.Errorf("of %d runs %d are kept; %v", kept+1, len(list), err)
	}
}

func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "sessions.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	if _, err := sqlite.Open(path, sqlite.Options{}); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("the disk is read-only: Open returned %v", err)
	}
	remount(0)
	if err := open(t, path).Runs().Put(t.Context(), someRun("r")); err != nil {
		t.Error(err)
	}
}
