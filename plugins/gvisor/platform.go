package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// platforms are the ways in which runsc intercepts system calls that the settings may name.
func platforms() []string { return []string{"systrap", "ptrace", "kvm"} }

// platformRest is how long a platform that failed is not tried again: a trial may take all of probeTime.
const platformRest = time.Minute

// tryPlatform finds out whether runsc works with a platform that the settings name. With one that does not, some
// machines have it wait without an end for a box that never starts. That it does not is core.ErrUnavailable, which is
// known even if ctx ends before it is known which ones do.
func tryPlatform(ctx context.Context, path, platform string) error {
	if platform == "" {
		return nil
	}
	why := trial(ctx, path, platform, probeTime)
	switch {
	case why == nil:
		return nil
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	}
	err := core.Errorf(core.ErrUnavailable, "gVisor's platform %s does not work on this machine: %w", platform, why)
	var others []string
	for _, other := range platforms() {
		if other != platform && other != "kvm" && trial(ctx, path, other, probeTime) == nil {
			others = append(others, other)
		}
	}
	switch {
	case len(others) > 0:
		return err.WithHint("set backends.gvisor.settings.platform to %s, or leave it out", strings.Join(others, " or "))
	case ctx.Err() != nil:
		return err.WithHint("leave backends.gvisor.settings.platform out")
	}
	return err.WithHint("none of gVisor's other platforms works here either; use another backend")
}

// trial has runsc run itself in a box on a platform, for so long at most.
func trial(ctx context.Context, path, platform string, most time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "boxwright-trial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("a box did not start within %v", most))
	defer cancel()
	args := []string{"--root=" + dir, "--platform=" + platform, "--network=none", "--ignore-cgroups"}
	if os.Getuid() != 0 {
		args = append(args, "--rootless")
	}
	said := &complaint{}
	cmd := exec.CommandContext(ctx, path, slices.Concat(args, []string{"do", path, "--version"})...) //nolint:gosec // the operator's own executable
	cmd.Env, cmd.Dir, cmd.Stderr = bareEnv(), "/", said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it has started ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = closeTime
	err = cmd.Run()
	switch {
	case err == nil || ctx.Err() == nil && said.text() == "":
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	last := said.text()
	return errors.New(last[strings.LastIndexByte(last, '\n')+1:])
}
