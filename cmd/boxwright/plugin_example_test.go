package main

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// needBubblewrap skips where there is none, unless that is forbidden.
func needBubblewrap(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it makes boxes")
	}
	if out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		if required("bubblewrap") {
			t.Fatalf("bubblewrap makes no boxes: %v: %s", err, out)
		}
		t.Skipf("bubblewrap makes no boxes: %v: %s", err, out)
	}
}

// anotherUser makes a process an ordinary user's, and the folder too: the example refuses to be root.
func anotherUser(t *testing.T, folder string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(os.Getenv("BOXWRIGHT_TEST_USER"))
	if err != nil && required("bubblewrap") {
		t.Fatalf("BOXWRIGHT_TEST_USER: %v; hack/podman-up.sh rootless prints it", err)
	} else if err != nil {
		t.Skipf("BOXWRIGHT_TEST_USER: %v; hack/podman-up.sh rootless prints it", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(folder, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// openUp lets others look into a temporary folder.
func openUp(t *testing.T, folder string) {
	t.Helper()
	for _, path := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// exampleBox is the agent of a small box of the example backend's.
func exampleBox(t *testing.T) execution.Guest {
	t.Helper()
	folder := realAgents(t)
	openUp(t, folder)
	agents, err := verifyFlags{agents: folder}.findAgents()
	if err != nil {
		t.Fatal(err)
	}
	program, state := build(t, "../../plugins/example", "boxwright-backend-example"), t.TempDir()
	openUp(t, filepath.Dir(program))
	openUp(t, state)
	plugin := sdktest.Spawn(t, program, sdktest.Options{
		Process: anotherUser(t, state), Env: []string{"PATH=" + os.Getenv("PATH")},
		Config: sdk.Config{Agents: agents, Settings: []byte(`{"state": "` + state + `"}`), Instance: executiontest.NewInstance()},
	})
	box, err := plugin.Create(t.Context(), core.BoxSpec{
		Image: core.ImageHost, Unenforced: core.UnenforcedWarn,
		Limits: core.Limits{MemoryBytes: 256 << 20, CPUs: 1, PIDs: 64, DiskBytes: 16 << 20},
		Labels: core.Labels{Instance: "example", Expires: time.Now().Add(5 * time.Minute).UTC()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plugin.Destroy(context.WithoutCancel(t.Context()), box.ID) })
	g, err := guest.New().Connect(t.Context(), plugin, box.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// TestExampleHoldsWhatItClaims runs code in a box of the example backend's that uses more than it may.
func TestExampleHoldsWhatItClaims(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	g := exampleBox(t)
	run := func(id, code string) core.Exit {
		exit, err := g.Run(t.Context(), core.RunSpec{
			ID: id, Code: []byte(code), Timeout: time.Minute, Output: core.OutputLimits{Head: 4 << 10, Tail: 4 << 10},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return exit
	}
	if exit := run("plain", "print(6 * 7)"); exit.Code != 0 || string(exit.Stdout.Head) != "42\n" {
		t.Errorf("plain code: %+v", exit)
	}
	for id, c := range map[string]struct{ code, never string }{
		"memory":  {"b = []\nfor _ in range(64): b.append(b'x' * (16 << 20))\nprint('had 1 GiB')", "had 1 GiB"},
		"disk":    {"open('big', 'wb').write(b'x' * (32 << 20))\nprint('wrote 32 MiB')", "wrote 32 MiB"},
		"process": {"import subprocess\np = [subprocess.Popen(['sleep', '5']) for _ in range(200)]\nimport time; time.sleep(2)\nprint('has 200', sum(x.poll() is None for x in p))", "has 200 200"},
		"network": {"import socket\nsocket.create_connection(('127.0.0.1', 22), 2)\nprint('connected')", "connected"},
		"host":    {"print(open('/etc/hostname').read(), 'was read')", "was read"},
		"root":    {"open('/usr/x', 'w')\nprint('wrote to /usr')", "wrote to /usr"},
	} {
		if exit := run(id, c.code); strings.Contains(string(exit.Stdout.Head), c.never) {
			t.Errorf("%s: it %s: %+v", id, c.never, exit)
		}
	}
	if exit := run("after", "print('still here')"); !strings.Contains(string(exit.Stdout.Head), "still here") {
		t.Errorf("afterwards: %+v", exit)
	}
}
