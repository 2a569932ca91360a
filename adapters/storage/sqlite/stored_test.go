package sqlite_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func storedSession() core.Session {
	return core.Session{
		ID: "s1", Owner: "ann", Name: "work", Client: "c\x00", Backend: "docker", Box: "b1", Server: "one",
		Image:        core.Image{Ref: "python:3.11", Digest: "sha256:00", Platform: "linux/amd64"},
		Requirements: []string{"numpy>=2"}, PythonPath: []string{"/env"},
		Created: at(1), Used: at(2), IdleTimeout: time.Minute, MaxAge: time.Hour, Lost: "not UTF-8: \xff",
	}
}

func storedEnvironment() core.Environment {
	return core.Environment{
		Key: "k1", Backend: "docker", Zone: "boxwright-envs", Folder: "abc", Language: core.LanguagePython, Names: []string{"numpy>=2"},
		Lock: "numpy==2.0", Report: "not UTF-8: \xff", Size: 5, Created: at(1), Used: at(2),
	}
}

func at(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 5, time.UTC) }

func storedRun() core.Run {
	return core.Run{
		ID: "r1", Owner: "ann", Session: "s1", Backend: "docker", Box: "b1", Server: "one", Language: "python", Summary: "print(1) # <ü>",
		State: core.RunEnded, Started: at(1), Ended: at(2), Timeout: time.Minute,
		Failure: core.Failure{Kind: core.ErrInternal, Message: "it failed", Hint: "try again"},
		Record: core.Record{
			RunID: "r1", Status: core.StatusFailed, ExitCode: 3, Signal: "SIGKILL", TimedOut: true, OOMKilled: true, Cancelled: true,
			Stdout:    core.Output{Head: []byte("a\xff"), Tail: []byte("z"), Total: 9, Spilled: 8},
			Stderr:    core.Output{Total: 1},
			Durations: map[core.Phase]time.Duration{"run": 2, "create": 1}, Total: 3,
			Files: []core.Artifact{{
				Run: "r1", Name: "d/p.png", Size: 4, MIMEType: "image/png", SHA256: "ab", URI: "boxwright://runs/r1/d/p.png",
				Location: "/files/p.png", Created: at(2), Preview: &core.Preview{MIMEType: "image/png", Data: []byte("png"), Shrunk: true},
			}},
			Warnings: []string{"careful"}, Install: "installed", Displays: []core.Display{{MIMEType: "text/html", Data: []byte("<p>")}},
			Session: "s1", Backend: "docker", Image: core.Image{Ref: "python:3.11"},
		},
	}
}

// golden is a stored document. Files out there have such, so what is in testdata does not change.
func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	return compact.String()
}

// TestStoredForm compares what a file holds with what files have held since each kind of document came.
func TestStoredForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db := open(t, path)
	if err := db.Sessions().Add(t.Context(), storedSession()); err != nil {
		t.Fatal(err)
	}
	if err := db.Runs().Put(t.Context(), storedRun()); err != nil {
		t.Fatal(err)
	}
	if err := db.Environments().Put(t.Context(), storedEnvironment()); err != nil {
		t.Fatal(err)
	}
	for column, file := range map[string]string{
		"session FROM sessions": "session.json", "brief FROM runs": "run-brief.json", "whole FROM runs": "run-whole.json",
		"environment FROM environments": "environment.json",
	} {
		var got string
		if err := raw(t, path).QueryRowContext(t.Context(), "SELECT "+column).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := golden(t, file); got != want {
			t.Errorf("%s is\n%s, not\n%s", column, got, want)
		}
	}
	var columns [2]string
	times := raw(t, path).QueryRowContext(t.Context(), "SELECT started, ended FROM runs")
	if err := times.Scan(&columns[0], &columns[1]); err != nil || columns != [2]string{"2026-01-02T03:04:01.000000005Z", "2026-01-02T03:04:02.000000005Z"} {
		t.Errorf("times are %q; %v", columns, err)
	}
}

// TestOldFile reads a file of format 1, which knew no environments, and goes on with it.
func TestOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	old := raw(t, path)
	step, err := os.ReadFile(filepath.Join("schema", "0001_sessions_and_runs.sql"))
	if err != nil {
		t.Fatal(err)
	}
	execute(t, old, string(step))
	execute(t, old, "PRAGMA user_version = 1")
	execute(t, old, `INSERT INTO sessions VALUES ('s1', 'ann', 'work', 'c', 1, '2026', ?)`, golden(t, "session.json"))
	execute(t, old, `INSERT INTO runs VALUES ('r1', 'ann', 2, '2026', '2026', ?, ?)`, golden(t, "run-brief.json"), golden(t, "run-whole.json"))
	db := open(t, path)
	if got, err := db.Sessions().Get(t.Context(), "ann", "work"); err != nil || !reflect.DeepEqual(got, storedSession()) {
		t.Errorf("the session is %+v, %v", got, err)
	}
	if got, err := db.Runs().Get(t.Context(), "ann", "r1"); err != nil || !reflect.DeepEqual(got, storedRun()) {
		t.Errorf("the run is %+v, %v", got, err)
	}
	if list, err := db.Environments().List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("environments are %+v, %v", list, err)
	}
	execute(t, old, `INSERT INTO environments VALUES ('k1', ?, CAST('numpy==2.0' AS BLOB), CAST('not UTF-8: ' || x'ff' AS BLOB))`, golden(t, "environment.json"))
	if got, err := db.Environments().Get(t.Context(), "k1"); err != nil || !reflect.DeepEqual(got, storedEnvironment()) {
		t.Errorf("the environment is %+v, %v", got, err)
	}
}

func TestTimeThatCannotBeKept(t *testing.T) {
	db := open(t, fileIn(t.TempDir()))
	far := storedSession()
	far.Created = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := db.Sessions().Add(t.Context(), far); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("Add returned %v", err)
	}
	if err := db.Environments().Put(t.Context(), storedEnvironment()); err != nil {
		t.Fatal(err)
	}
	if err := db.Environments().Touch(t.Context(), "k1", far.Created); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("Touch returned %v", err)
	}
}
