package gvisor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// A box with a network starts in a network namespace of its own, to which slirp4netns gives a way
// out that is an ordinary program's on the host: nothing of the host's own network is in there.
//
//	plugin ── starts ──> stage, in the new namespace (and a user namespace, without root)
//	plugin ── starts ──> slirp4netns, which joins the stage's namespaces and makes tap0 there
//	stage  ── bars what nobody may reach, and becomes runsc, which leaves the box running there
const (
	tunnelName  = "slirp4netns-" // begins the tunnel's argv[0], which the box's id ends
	tunnelNet   = "10.0.2.0/24"  // what slirp4netns makes
	tunnelDNS   = "10.0.2.3"     // answers with what the host's own resolver says
	tunnelMTU   = "65520"
	tunnelReady = 10 * time.Second

	// stageName is the argument with which the plugin's executable is the stage.
	stageName = "boxwright-gvisor-stage"
)

// tunnel is slirp4netns' path; "" if the machine has none.
func (b *Backend) tunnel() string {
	for _, dir := range filepath.SplitList(b.machine.getenv("PATH") + ":/usr/bin:/usr/local/bin") {
		path := filepath.Join(dir, "slirp4netns")
		if filepath.IsAbs(dir) && unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return ""
}

// startInTunnel starts the box in a new network namespace, with a stream.
func (b *Backend) startInTunnel(ctx context.Context, id string, r *runsc, bundle request, stream *os.File) error {
	said := &complaint{}
	stage, gate, err := b.startStage(ctx, r, bundle, said, stream)
	if err != nil {
		return err
	}
	defer func() { _ = gate.Close() }() // the stage ends if nothing was written
	if err := b.startTunnel(ctx, id, stage.Process.Pid); err != nil {
		_, _ = stage.Process.Kill(), stage.Wait() // it waits at the gate
		return err
	}
	_, err = gate.Write([]byte{1})
	if err = errors.Join(err, stage.Wait()); err != nil && said.text() != "" && ctx.Err() == nil {
		return core.Errorf(core.ErrUnavailable, "the box's network could not be closed to the host: %s", said.text())
	}
	return err
}

// startStage starts the stage, which waits at its stdin.
func (b *Backend) startStage(ctx context.Context, r *runsc, bundle request, said *complaint, stream *os.File) (*exec.Cmd, io.WriteCloser, error) {
	cmd := exec.CommandContext(ctx, b.machine.self, append([]string{r.path}, bundle.Args...)...) //nolint:gosec // the plugin itself
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, nil, err
	}
	cmd.Args[0] = stageName
	cmd.Env, cmd.Dir = append(bareEnv(), barredVariable+"="+barred(own)), "/"
	cmd.Stderr, cmd.ExtraFiles = said, []*os.File{stream} // what it becomes has no use for stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNET}
	if b.machine.uid != 0 {
		asGuest(cmd.SysProcAttr, b.machine.uid, b.machine.gid)
	}
	gate, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, gate, startOn(cmd, bundle.StartCPUs)
}

// asGuest makes the new process the box's user of a user namespace in which only that user is,
// with the rights that runsc needs there.
func asGuest(attr *syscall.SysProcAttr, uid, gid int) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: core.GuestUID, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: core.GuestGID, HostID: gid, Size: 1}}
	attr.AmbientCaps = []uintptr{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
		unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE,
		unix.CAP_NET_ADMIN,
	}
}

// startTunnel starts slirp4netns for the namespaces of process pid, and returns when the network
// is there.
func (b *Backend) startTunnel(ctx context.Context, id string, pid int) error {
	said, err := newWords()
	if err != nil {
		return err
	}
	defer said.close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }()                                                          // it was only read
	cmd := exec.Command(b.tunnel(), planTunnel(pid, tunnelSandbox(b.machine.uid, resolvConf))...) //nolint:gosec // the machine's own program
	cmd.Args[0] = tunnelName + id
	cmd.Env, cmd.Dir = bareEnv(), "/"
	cmd.Stderr, cmd.ExtraFiles = said.file, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = theirs.Close() // the tunnel has its own
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it is ended with the box
	if err := awaitTunnel(ctx, ready); err != nil {
		_ = cmd.Process.Kill() // it may have ended by itself
		return core.Errorf(core.ErrUnavailable, "slirp4netns made no network: %s", cmp.Or(said.text(), err.Error())).
			WithHint("it needs /dev/net/tun to be writable for this user")
	}
	return nil
}

const resolvConf = "/etc/resolv.conf"

// tunnelSandbox reports whether the tunnel works in its sandbox: only root's can make it (an
// ordinary user's has no rights to give up), and it must find the host's resolver in it, which some
// systems keep elsewhere.
func tunnelSandbox(uid int, resolver string) bool {
	target, err := filepath.EvalSymlinks(resolver)
	return uid == 0 && err == nil && (strings.HasPrefix(target, "/etc/") || strings.HasPrefix(target, "/run/"))
}

// awaitTunnel waits for the tunnel's word that it is ready.
func awaitTunnel(ctx context.Context, ready *os.File) error {
	if err := ready.SetReadDeadline(deadline(ctx, tunnelReady)); err != nil {
		return err
	}
	_, err := ready.Read(make([]byte, 1))
	return err
}

func deadline(ctx context.Context, most time.Duration) time.Time {
	end := time.Now().Add(most)
	if first, has := ctx.Deadline(); has && first.Before(end) {
		return first
	}
	return end
}
