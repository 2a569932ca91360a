package disk_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/core"
)

// TestMain lets the test's own executable be a second server.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BOXWRIGHT_TEST_STATE_DIR"); dir != "" {
		os.Exit(beServer(dir))
	}
	os.Exit(m.Run())
}

// beServer tells its ids on standard error and lives until its standard input ends.
func beServer(dir string) int {
	i, err := disk.OpenInstance(dir)
	if err != nil {
		return 1
	}
	if _, err := io.WriteString(os.Stderr, i.ID+" "+i.Server+"\n"); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if os.Getenv("BOXWRIGHT_TEST_CLOSE") != "" {
		_ = i.Close()
	}
	return 0
}

type server struct {
	*exec.Cmd
	stdin      io.Closer
	id, server string
}

func startServer(t *testing.T, dir string, env ...string) server {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "BOXWRIGHT_TEST_STATE_DIR="+dir), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	told, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(told).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	return server{cmd, stdin, id, name}
}

func openInstance(t *testing.T, dir string) *disk.Instance {
	t.Helper()
	i, err := disk.OpenInstance(dir)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	i := openInstance(t, dir)
	defer i.Close()
	other := startServer(t, dir)
	if other.id != i.ID || other.server == i.Server || other.server == "" {
		t.Errorf("the other is %q of %q, this one %q of %q", other.server, other.id, i.Server, i.ID)
	}
	if !i.Alive(i.Server) || !i.Alive(other.server) {
		t.Error("a living server counts as dead")
	}
	age(t, dir, other.server, 48*time.Hour)
	if n := openAndCount(t, dir); n != 3 {
		t.Errorf("%d locks while two servers live and a third begins", n)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if i.Alive(other.server) {
		t.Error("a killed server counts as alive")
	}
	age(t, dir, other.server, 23*time.Hour)
	if n := openAndCount(t, dir); n != 3 {
		t.Errorf("%d locks, though the dead server's is not a day old", n)
	}
	age(t, dir, other.server, 25*time.Hour)
	age(t, dir, i.Server, 25*time.Hour)
	if n := openAndCount(t, dir); n != 2 || i.Alive(other.server) {
		t.Errorf("%d locks, or the dead server lives", n)
	}
	if !i.Alive(i.Server) {
		t.Error("this server counts as dead")
	}
}

// openAndCount begins another server, which forgets dead ones, and counts the locks.
func openAndCount(t *testing.T, dir string) int {
	t.Helper()
	i := openInstance(t, dir)
	defer i.Close()
	locks, err := filepath.Glob(filepath.Join(dir, "servers", "*.lock"))
	if err != nil {
		t.Fatal(err)
	}
	return len(locks)
}

// age makes a lock as old as that.
func age(t *testing.T, dir, server string, by time.Duration) {
	t.Helper()
	old := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(dir, "servers", server+".lock"), old, old); err != nil {
		t.Fatal(err)
	}
}

func TestCloseReleases(t *testing.T) {
	dir := t.TempDir()
	i := openInstance(t, dir)
	defer i.Close()
	other := startServer(t, dir, "BOXWRIGHT_TEST_CLOSE=1")
	if err := other.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	if i.Alive(other.server) {
		t.Error("a closed server counts as alive")
	}
	if locks, _ := filepath.Glob(filepath.Join(dir, "servers", "*")); len(locks) != 1 {
		t.Errorf("locks: %v", locks)
	}
}

func TestIDStays(t *testing.T) {
	dir := t.TempDir()
	first := openInstance(t, dir)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second := openInstance(t, dir)
	defer second.Close()
	if first.ID != second.ID || first.Server == second.Server {
		t.Errorf("ids %s, %s; servers %s, %s", first.ID, second.ID, first.Server, second.Server)
	}
	elsewhere := openInstance(t, t.TempDir())
	defer elsewhere.Close()
	if elsewhere.ID == first.ID {
		t.Error("two state folders have one id")
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	dir := t.TempDir()
	const count = 20
	opened := make([]*disk.Instance, count)
	var group sync.WaitGroup
	for n := range count {
		group.Go(func() {
			i, err := disk.OpenInstance(dir)
			if err != nil {
				t.Error(err)
				return
			}
			opened[n] = i
		})
	}
	group.Wait()
	for _, i := range opened {
		if i == nil {
			continue
		}
		if i.ID != opened[0].ID || !opened[0].Alive(i.Server) || !i.Alive(opened[0].Server) {
			t.Errorf("%s of %s: the ids differ, or it counts as dead", i.Server, i.ID)
		}
	}
	for _, i := range opened {
		if i != nil {
			if err := i.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestStrangeServers(t *testing.T) {
	dir := t.TempDir()
	i := openInstance(t, dir)
	defer i.Close()
	for _, name := range []string{"", "unknown", "../instance", "a/b", "\x00"} {
		if i.Alive(name) {
			t.Errorf("%q counts as alive", name)
		}
	}
}

func TestBrokenID(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "instance"), []byte("not an id\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if i, err := disk.OpenInstance(dir); err == nil {
		t.Errorf("opened as %q", i.ID)
	}
}

// TestSecret: an installation has one of each name, which only its user reads.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	i := openInstance(t, dir)
	defer i.Close()
	made := make(chan []byte)
	for range 10 {
		go func() {
			other := openInstance(t, dir)
			defer other.Close()
			secret, err := other.Secret("s.key")
			if err != nil {
				t.Error(err)
			}
			made <- secret
		}()
	}
	first := <-made
	for range 9 {
		if again := <-made; !bytes.Equal(first, again) || len(again) != 32 {
			t.Error("two servers have two secrets")
		}
	}
	other, err := i.Secret("other.key")
	if err != nil || bytes.Equal(first, other) {
		t.Errorf("another name has the same secret, %v", err)
	}
	file := filepath.Join(dir, "s.key")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(file, first[:31], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Secret("s.key"); core.KindOf(err) != core.ErrInvalid || core.HintOf(err) == "" {
		t.Errorf("a damaged one is %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.key.*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
