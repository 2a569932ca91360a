package gvisor

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestRecognise(t *testing.T) {
	id := newID()
	bundle := plan(core.BoxSpec{Limits: core.DefaultLimits()}, order{ID: id, Folders: folders{state: "/state", cache: "/cache"}})
	starts := func(program ...string) string { return strings.Join(append(program, bundle.Args...), " ") }
	for line, want := range map[string]process{
		"runsc-sandbox --root=/r boot --bundle=/b " + id:               {box: id, sandbox: true},
		"runsc-gofer --root=/r gofer --bundle /b " + id:                {box: id},
		starts("/opt/runsc"):                                           {box: id},
		starts("/bin/sh", "/opt/wrapper"):                              {box: id},
		starts(stageName, "/opt/runsc"):                                {box: id},
		tunnelName + id + " --configure 12 tap0":                       {box: id, tunnel: true},
		tunnelName + "12 tap0":                                         {},
		"runsc --root=/r debug " + id:                                  {},
		"runsc --root=/r run --pass-fd=3:3 --detach --bundle=/b " + id: {},
		"run --pass-fd=3:3 --detach --bundle=/b/" + id + " " + id:      {},
		"grep " + id:                         {},
		"runsc-sandbox boot boxwright-short": {},
		"runsc --root=/r exec --user=1:1 " + id + " /agent dial ": {},
	} {
		got, ok := recognise(strings.Split(line, " "))
		if ok != (want.box != "") || ok && got != want {
			t.Errorf("%q is %+v, %v", line, got, ok)
		}
	}
}

// pretend starts a program that looks like a box's kernel, as that user.
func pretend(t *testing.T, id string, as *syscall.Credential) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Args = []string{"runsc-sandbox", "-c", "echo; read nothing", id}
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	_, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	out.Read(make([]byte, 1)) // it is the shell now
	return cmd
}

// TestWhatAnotherUserPretends: what another user gives a box's command line neither makes the box
// run, nor is ended, nor keeps the box from being removed.
func TestWhatAnotherUserPretends(t *testing.T) {
	as := ordinaryUser(t)
	id := newID()
	other := pretend(t, id, as)
	if running(processesOf(0))[id] || !running(processesOf(int(as.Uid)))[id] {
		t.Error("the other user's process counts")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	root := Backend{machine: machine{uid: 0}}
	if err := root.killAll(ctx, id); err != nil {
		t.Error(err)
	}
	if len(processesIn(id)) != 1 {
		t.Error("the other user's process was ended")
	}
	user := Backend{machine: machine{uid: int(as.Uid)}}
	go other.Process.Wait() // a process that nobody waits for is never gone
	if err := user.killAll(ctx, id); err != nil || len(processesIn(id)) > 0 {
		t.Errorf("a user's own process: %v, it still has %v", err, processesIn(id))
	}
}

// TestKillAsksAgain: a process id that is another's by now ends nothing.
func TestKillAsksAgain(t *testing.T) {
	id := newID()
	cmd := pretend(t, id, nil)
	pid := cmd.Process.Pid
	if err := kill(pid, func() bool { return false }); err != nil || len(processesIn(id)) != 1 {
		t.Errorf("what is not meant any more is ended: %v", err)
	}
	if err := kill(pid, func() bool { return true }); err != nil {
		t.Error(err)
	}
	if state, err := cmd.Process.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ends with %v, %v", state, err)
	}
}

func TestOwner(t *testing.T) {
	as := ordinaryUser(t)
	cmd := pretend(t, newID(), as)
	if uid, ok := owner(cmd.Process.Pid); uid != int(as.Uid) || !ok {
		t.Errorf("got %d, %v", uid, ok)
	}
	if _, ok := owner(1 << 30); ok {
		t.Error("no process has an owner")
	}
	if !slices.ContainsFunc(processesOf(int(as.Uid)), func(p process) bool { return p.pid == cmd.Process.Pid }) {
		t.Error("it is not found")
	}
}
