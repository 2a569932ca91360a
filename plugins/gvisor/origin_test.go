package gvisor

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
)

// agentOf is an agent of that content.
func agentOf(t *testing.T, content string) agentfile.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	os.WriteFile(path, []byte(content), 0o600)
	file, err := agentfile.New(map[string]string{runtime.GOARCH: path}).Of("x", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTheAgentsCopyIsWhole, whatever was in its place when the plugin began, and is known to be wanted.
func TestTheAgentsCopyIsWhole(t *testing.T) {
	b := storeBackend(t)
	file := agentOf(t, "agent")
	dir := filepath.Join(b.folders.agents(), file.Name)
	target := filepath.Join(dir, filepath.Base(core.GuestAgent))
	os.Mkdir(dir, 0o755)
	os.WriteFile(target, []byte("wrong"), 0o555) // as long as the right one
	old := time.Now().Add(-2 * agentAge)
	os.Chtimes(dir, old, old)
	if got, err := b.keepAgent(t.Context(), file); err != nil || got != dir {
		t.Fatalf("got %s, %v", got, err)
	}
	content, err := os.ReadFile(target)
	info, statErr := os.Stat(target)
	if err != nil || statErr != nil || string(content) != "agent" || info.Mode().Perm() != 0o555 {
		t.Errorf("it is %q, %v, %v", content, info.Mode(), err)
	}
}

// TestAnAgentThatIsWantedStays: it is old, and its box has no record yet.
func TestAnAgentThatIsWantedStays(t *testing.T) {
	first, second := storeBackend(t), storeBackend(t)
	second.folders = first.folders
	file := agentOf(t, "agent")
	dir, err := first.keepAgent(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * agentAge)
	os.Chtimes(dir, old, old)
	unwanted := filepath.Join(first.folders.agents(), "unwanted")
	os.Mkdir(unwanted, 0o755)
	os.Chtimes(unwanted, old, old)
	lockFile := filepath.Join(first.folders.agents(), ".lock")
	os.Chtimes(lockFile, old, old)
	if _, err := second.keepAgent(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	third := storeBackend(t)
	third.folders = first.folders
	if _, err := third.keepAgent(t.Context(), agentOf(t, "another")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, lockFile: true, unwanted: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := second.keepAgent(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a copy that somebody removed is not made again: %v", err)
	}
}
