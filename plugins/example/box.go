package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/execstream"
)

// report is the file to which bwrap writes about the box. Nobody in the box can write to it.
const report = "report"

// pid returns the box's first process, or 0 if that has ended.
func (b *backend) pid(id string) int {
	made := map[string]int{}
	text, _ := os.ReadFile(b.boxes.Store.Path(id, report))                    // it may not be there yet
	_ = json.Unmarshal(text, &made)                                           // or not be complete
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", made["child-pid"])) // none for a process that has ended
	if link != fmt.Sprintf("pid:[%d]", made["pid-namespace"]) {               // another process has its number now
		return 0
	}
	return made["child-pid"]
}

// Create implements execution.Backend. A box is saved before it starts: List always knows it.
func (b *backend) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	if err := errors.Join(spec.Validate(), hasImage(spec.Image, spec.Digest)); err != nil {
		return core.Box{}, err
	}
	if spec.Network != core.NetworkNone {
		return core.Box{}, core.Errorf(core.ErrUnsupported, "this backend has no network for boxes")
	}
	warnings, err := spec.CheckHeld(limits())
	agent, agentErr := b.agents.Of(core.ImageHost, runtime.GOARCH)
	if err := errors.Join(err, agentErr); err != nil {
		return core.Box{}, err
	}
	box, err := b.boxes.Make(spec)
	if err != nil {
		return core.Box{}, err
	}
	if err := b.start(box.ID, plan(spec, agent.Path, b.volumes.Data)); err != nil {
		return core.Box{}, errors.Join(err, b.Destroy(ctx, box.ID))
	}
	return box.Describe(true, warnings...), nil
}

// start starts bwrap and returns once the agent runs, or bwrap has ended: in between, nobody could tell
// what to remove. The box outlives the plugin: it has a session of its own, and writes to files.
func (b *backend) start(id string, args []string) error {
	log, err := b.boxes.Log(id)
	about, aboutErr := os.Create(b.boxes.Store.Path(id, report))
	defer func() { _, _ = log.Close(), about.Close() }() // bwrap has them then
	if err := errors.Join(err, aboutErr); err != nil {
		return core.Errorf(core.ErrInternal, "the box cannot be written down: %w", err)
	}
	cmd := exec.Command("bwrap", args...) //nolint:gosec // plan made them
	cmd.ExtraFiles, cmd.Stderr, cmd.SysProcAttr = []*os.File{about}, log, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return core.Errorf(core.ErrUnavailable, "bubblewrap does not start: %w", err).WithHint("install bubblewrap")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", b.pid(id))) // first it is bwrap
		if string(name) == "boxwright-agent\n" {
			return nil
		}
		select {
		case err := <-ended:
			why, _ := os.ReadFile(log.Name())
			return core.Errorf(core.ErrInternal, "the box ended at once: %w: %.900s", err, why)
		case <-time.After(time.Millisecond):
		}
	}
}

// Dial implements execution.Backend: the agent's dial command, in the network namespace of the box and
// in the user namespace that owns it, finds the agent's socket.
func (b *backend) Dial(_ context.Context, id string) (io.ReadWriteCloser, error) {
	if _, err := b.boxes.Find(id); err != nil {
		return nil, err
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", b.pid(id)))
	if err != nil {
		return nil, core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	defer func() { _ = network.Close() }() // it is passed on
	owner, err := unix.IoctlRetInt(int(network.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, core.Errorf(core.ErrUnavailable, "the box cannot be entered: %w", err)
	}
	user := os.NewFile(uintptr(owner), "user namespace")
	defer func() { _ = user.Close() }() // it is passed on
	agent, err := b.agents.Of(core.ImageHost, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("nsenter", "--user=/proc/self/fd/3", "--net=/proc/self/fd/4", "--preserve-credentials", agent.Path, "dial") //nolint:gosec // the host names it
	cmd.ExtraFiles, cmd.Stderr = []*os.File{user, network}, os.Stderr
	return execstream.Start(cmd)
}

// Destroy implements execution.Backend. With its first process, all of a box's processes end. One that has
// not told its number yet will do so, although the plugin that started it may be gone.
func (b *backend) Destroy(ctx context.Context, id string) error {
	if _, err := b.boxes.Find(id); err != nil {
		return nil // an unknown box is no error
	}
	for pid := b.pid(id); pid != 0 || b.boxes.IsHeld(id); pid = b.pid(id) {
		if ctx.Err() != nil || pid != 0 && errors.Is(syscall.Kill(pid, syscall.SIGKILL), syscall.EPERM) {
			return core.Errorf(core.ErrUnavailable, "the box does not end")
		}
		time.Sleep(time.Millisecond)
	}
	return b.boxes.Store.Remove(id)
}
