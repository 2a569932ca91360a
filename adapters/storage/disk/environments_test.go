package disk_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/dependency/dependencytest"
)

func environments(t *testing.T, dir string, log *slog.Logger) *disk.Environments {
	t.Helper()
	x, err := disk.NewEnvironments(dir, disk.EnvironmentOptions{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func TestEnvironments(t *testing.T) {
	dependencytest.Run(t, func(t *testing.T) dependency.Index {
		return environments(t, filepath.Join(t.TempDir(), "new", "environments"), nil)
	})
}

func TestBrokenEnvironmentIsAbsent(t *testing.T) {
	for name, text := range map[string]string{
		"half":    `{"key":"one","vol`,
		"empty":   ``,
		"other":   `{"key":"two","volume":"v"}`,
		"nothing": `{}`,
		"list":    `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var log bytes.Buffer
			x := environments(t, dir, slog.New(slog.NewTextHandler(&log, nil)))
			if err := os.WriteFile(filepath.Join(dir, "one.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := x.Get(t.Context(), "one"); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("got %v, want ErrNotFound", err)
			}
			if list, err := x.List(t.Context()); len(list) != 0 || err != nil {
				t.Errorf("listed: %v, %v", list, err)
			}
			if !strings.Contains(log.String(), "counts as absent") {
				t.Errorf("the log does not tell: %s", log.String())
			}
			if err := x.Put(t.Context(), core.Environment{Key: "one", Volume: "v"}); err != nil {
				t.Error(err)
			}
			if e, err := x.Get(t.Context(), "one"); e.Volume != "v" || err != nil {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

func TestEnvironmentsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	if err := environments(t, dir, nil).Put(t.Context(), core.Environment{Key: "one", Volume: "v"}); err != nil {
		t.Fatal(err)
	}
	if e, err := environments(t, dir, nil).Get(t.Context(), "one"); e.Volume != "v" || err != nil {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestHalfWrittenEnvironments(t *testing.T) {
	dir := t.TempDir()
	x := environments(t, dir, nil)
	for name, age := range map[string]time.Duration{".new-old": 2 * time.Hour, ".new-fresh": 0} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(`{`), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := x.List(t.Context()); len(list) != 0 || err != nil {
		t.Errorf("listed: %v, %v", list, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) != 1 || filepath.Base(left[0]) != ".new-fresh" {
		t.Errorf("left: %v", left)
	}
}
