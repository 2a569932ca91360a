package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
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

// exampleBox is the agent of a small box of the example backend's.
func exampleBox(t *testing.T) execution.Guest {
	t.Helper()
	agents, err := verifyFlags{agents: realAgents(t)}.findAgents()
	if err != nil {
		t.Fatal(err)
	}
	plugin := pluginhost.Open(pluginhost.Config{
		Name: "example", Path: build(t, "../../plugins/example", "boxwright-backend-example"), Agents: agents,
		Settings: []byte(`{"state": "` + t.TempDir() + `"}`), Instance: executiontest.NewInstance(),
	})
	t.Cleanup(func() { plugin.Close(context.WithoutCancel(t.Context())) })
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
