package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
)

// childFile, in the environment of this test program, makes it another process that uses the file.
const (
	childFile = "SQLITE_TEST_FILE"
	childTask = "SQLITE_TEST_TASK"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := beChild(path, os.Getenv(childTask)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func beChild(path, task string) error {
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	if task == "count" {
		return count(db, 50)
	}
	for i := 0; ; i++ { // until it is killed
		id := fmt.Sprintf("%s-%d", task, i)
		if err := db.Runs().Put(context.Background(), someRun(id)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stderr, id); err != nil {
			return err
		}
	}
}

func child(t *testing.T, path, task string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path, childTask+"="+task)
	return cmd
}

func someRun(id string) core.Run {
	return core.Run{
		ID: id, Owner: "ann", State: core.RunEnded, Started: time.Unix(1, 0).UTC(), Ended: time.Unix(2, 0).UTC(),
		Record: core.Record{Stdout: core.Output{Head: []byte(strings.Repeat("output ", 500)), Total: 3500}},
	}
}

func someSession(id string) core.Session {
	return core.Session{ID: id, Owner: "ann", Name: "name of " + id, Created: time.Unix(1, 0).UTC()}
}

// count adds to a session's age, one by one.
func count(db *sqlite.DB, n int) error {
	for range n {
		err := db.Sessions().Update(context.Background(), "s", func(s *core.Session) error { s.MaxAge++; return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// TestKilled kills a process that puts, twenty times: whatever it was told was kept is there.
func TestKilled(t *testing.T) {
	path := fileIn(t.TempDir())
	for round := range 20 {
		kept := putUntilKilled(t, path, fmt.Sprint("round", round), 1+round*3)
		db := open(t, path)
		for _, id := range kept {
			got, err := db.Runs().Get(t.Context(), "ann", id)
			if err != nil || got.Record.Stdout.Total != 3500 || len(got.Record.Stdout.Head) != 3500 {
				t.Errorf("run %s was kept before the kill; now Get returns %+v, %v", id, got.Record.Stdout.Total, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// putUntilKilled kills the process when it has kept n runs, and returns those that it said it kept.
func putUntilKilled(t *testing.T, path, name string, n int) (kept []string) {
	t.Helper()
	cmd := child(t, path, name)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		kept = append(kept, lines.Text())
		if len(kept) == n {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if len(kept) < n {
		t.Fatalf("it kept %d runs only: %q", len(kept), kept)
	}
	return kept
}

func TestTwoProcesses(t *testing.T) {
	path := fileIn(t.TempDir())
	db := open(t, path)
	if err := db.Sessions().Add(t.Context(), someSession("s")); err != nil {
		t.Fatal(err)
	}
	other := child(t, path, "count")
	other.Stderr = os.Stderr
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if err := count(db, 50); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Sessions().Get(t.Context(), "ann", "s"); err != nil || got.MaxAge != 100 {
		t.Errorf("of 100 changes %d are kept; %v", got.MaxAge, err)
	}
}

func TestOpenedAtOnce(t *testing.T) {
	path := fileIn(t.TempDir())
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			db, err := sqlite.Open(path, sqlite.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Sessions().Add(t.Context(), someSession(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := open(t, path).Sessions().List(t.Context(), "ann"); err != nil || len(list) != 10 {
		t.Errorf("of 10 sessions %d are kept; %v", len(list), err)
	}
}

// raw is the file as another program sees it.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(statement, err)
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db, err := sqlite.Open(path, sqlite.Options{Wait: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	add := func(ctx context.Context) error { return db.Sessions().Add(ctx, someSession("s")) }
	if err := add(t.Context()); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("locked by another: Add returned %v", err)
	}
	update := db.Sessions().Update(t.Context(), "s", func(*core.Session) error { return nil })
	if !errors.Is(update, core.ErrUnavailable) {
		t.Errorf("locked by another: Update returned %v", update)
	}
	if _, err := db.Sessions().List(t.Context(), ""); err != nil {
		t.Errorf("reading does not wait; List returned %v", err)
	}
	execute(t, other, "ROLLBACK")
	if err := add(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestContextEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db := open(t, path)
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := db.Runs().Put(soon, someRun("r")); !errors.Is(err, core.ErrTimeout) {
		t.Errorf("the deadline passed: Put returned %v", err)
	}
	execute(t, other, "ROLLBACK")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Runs().Put(over, someRun("r")); !errors.Is(err, core.ErrCancelled) {
		t.Errorf("cancelled: Put returned %v", err)
	}
	if _, err := db.Runs().Get(t.Context(), "ann", "r"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("nothing was kept: Get returned %v", err)
	}
	if err := db.Runs().Put(t.Context(), someRun("r")); err != nil {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	db := open(t, fileIn(t.TempDir()))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := db.Runs().Put(t.Context(), someRun("r")); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Put returned %v", err)
	}
	if _, err := db.Sessions().Get(t.Context(), "ann", "s"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Get returned %v", err)
	}
}

func TestNewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	execute(t, other, "PRAGMA user_version = 99")
	db, err := sqlite.Open(path, sqlite.Options{})
	if db != nil || !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "99") {
		t.Errorf("Open returned %v", err)
	}
	execute(t, other, "PRAGMA user_version = 3")
	open(t, path)
}

// filled is the content of a file that holds something.
func filled(t *testing.T, path string) []byte {
	t.Helper()
	db := open(t, path)
	for i := range 10 {
		id := fmt.Sprint("id", i)
		err := errors.Join(db.Sessions().Add(t.Context(), someSession(id)), db.Runs().Put(t.Context(), someRun(id)),
			db.Environments().Put(t.Context(), core.Environment{Key: id}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	whole := filled(t, path)
	zeroes := append([]byte(nil), whole...)
	clear(zeroes[100:4096])
	for name, content := range map[string][]byte{
		"another file": []byte(strings.Repeat("this is not SQLite's ", 500)), "only the beginning": whole[:5000], "no tables": zeroes,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.Open(path, sqlite.Options{})
		if db != nil || !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), path) || !strings.Contains(core.HintOf(err), "move it away") {
			t.Errorf("%s: Open returned %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(content) {
			t.Errorf("%s: the file was changed; %v", name, err)
		}
	}
}

// TestADamagedRow costs only itself.
func TestADamagedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db := open(t, path)
	for _, id := range []string{"good", "bad"} {
		run := someRun(id)
		run.State = core.RunUnderWay
		if err := errors.Join(db.Runs().Put(t.Context(), run), db.Sessions().Add(t.Context(), someSession(id))); err != nil {
			t.Fatal(err)
		}
	}
	for _, damage := range []string{`UPDATE runs SET brief = '{', whole = '{' WHERE id = 'bad'`, `UPDATE sessions SET session = '{' WHERE id = 'bad'`} {
		if _, err := raw(t, path).ExecContext(t.Context(), damage); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := db.Runs().UnderWay(t.Context()); err != nil || len(list) != 1 || list[0].ID != "good" {
		t.Errorf("UnderWay returned %+v, %v", list, err)
	}
	if list, err := db.Sessions().List(t.Context(), ""); err != nil || len(list) != 1 || list[0].ID != "good" {
		t.Errorf("List returned %+v, %v", list, err)
	}
	if _, err := db.Runs().Get(t.Context(), "", "bad"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("Get returned %v", err)
	}
}

// TestBytesFlipped has a file lie in many places: whatever comes of it is an error or an answer.
func TestBytesFlipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	whole := filled(t, path)
	failed := 0
	for _, at := range places(len(whole)) {
		content := append([]byte(nil), whole...)
		content[at] ^= 0xff
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		err := useAll(t, path)
		if kind := core.KindOf(err); kind != "" && kind != core.ErrUnavailable && kind != core.ErrUnsupported && kind != core.ErrNotFound {
			t.Errorf("byte %d: %v", at, err)
		}
		if err != nil {
			failed++
		}
		for _, beside := range []string{"-wal", "-shm"} {
			_ = os.Remove(path + beside)
		}
	}
	if failed == 0 {
		t.Error("no damage was noticed at all")
	}
}

// places are where pages begin, as there the most is told of them, and some between.
func places(size int) (list []int) {
	for page := 0; page < size; page += 4096 {
		for _, at := range []int{0, 3, 5, 8, 12, 101, 4000} {
			list = append(list, page+at)
		}
	}
	return list
}

// useAll calls what reads and what writes, and returns the first error.
func useAll(t *testing.T, path string) error {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := t.Context()
	_, get := db.Runs().Get(ctx, "ann", "id7")
	_, list := db.Runs().List(ctx, "ann", time.Time{}, 50)
	_, sessions := db.Sessions().List(ctx, "")
	update := db.Sessions().Update(ctx, "id3", func(s *core.Session) error { s.Box += "x"; return nil })
	put := db.Runs().Put(ctx, someRun("id10"))
	_, sweep := db.Runs().Sweep(ctx, time.Unix(3, 0))
	_, environments := db.Environments().List(ctx)
	_, environment := db.Environments().Get(ctx, "id3")
	touch := db.Environments().Touch(ctx, "id4", time.Unix(4, 0))
	for _, err := range []error{get, list, sessions, update, put, sweep, environments, environment, touch} {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestNobodyElseReads(t *testing.T) {
	path := fileIn(t.TempDir())
	db := open(t, path)
	if err := db.Sessions().Add(t.Context(), someSession("s")); err != nil {
		t.Fatal(err)
	}
	wantModes := func() {
		t.Helper()
		for name, want := range map[string]os.FileMode{"": 0o600, "-wal": 0o600, "-shm": 0o600, "/..": 0o700} {
			if info, err := os.Stat(filepath.Clean(path + name)); err != nil || info.Mode().Perm() != want {
				t.Errorf("%q: %v, %v", name, info, err)
			}
		}
	}
	wantModes()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Sessions().Remove(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	wantModes()
}

func TestUnusablePath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "sessions.db"), dir} {
		if _, err := sqlite.Open(path, sqlite.Options{}); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open %s returned %v", path, err)
		}
	}
	t.Chdir(dir)
	open(t, "relative.db")
}
