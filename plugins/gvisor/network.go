package gvisor

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// startInTunnel starts the box in a new network namespace.
func (b *Backend) startInTunnel(ctx context.Context, id string, r *runsc, bundle request) error {
	stage, gate, err := b.startStage(ctx, r, bundle)
	if err != nil {
		return err
	}
	defer func() { _ = gate.Close() }() // the stage ends if nothing was written
	if err := b.startTunnel(ctx, id, stage.Process.Pid); err != nil {
		return errors.Join(err, stage.Process.Kill(), gone(stage.Wait()))
	}
	if _, err := gate.Write([]byte{1}); err != nil {
		return errors.Join(err, stage.Wait())
	}
	return stage.Wait()
}

// startStage starts the stage, which waits at its stdin.
func (b *Backend) startStage(ctx context.Context, r *runsc, bundle request) (*exec.Cmd, io.WriteCloser, error) {
	cmd := exec.CommandContext(ctx, b.machine.self, append([]string{r.path}, bundle.Args...)...) //nolint:gosec // the plugin itself
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, nil, err
	}
	cmd.Args[0] = stageName
	cmd.Env, cmd.Dir = append(bareEnv(), barredVariable+"="+barred(own)), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNET}
	if b.machine.uid != 0 {
		asGuest(cmd.SysProcAttr, b.machine.uid, b.machine.gid)
	}
	gate, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, gate, startOn(cmd, bundle.CPUs)
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
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }()                                                                                                                         // it was only read
	cmd := exec.Command(b.tunnel(), "--configure", "--mtu="+tunnelMTU, "--disable-host-loopback", "--enable-seccomp", "--ready-fd=3", strconv.Itoa(pid), "tap0") //nolint:gosec // the machine's own program
	cmd.Args[0] = tunnelName + id
	cmd.Env, cmd.Dir = bareEnv(), "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = theirs.Close() // the tunnel has its own
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it is ended with the box
	if err := ready.SetReadDeadline(deadline(ctx, tunnelReady)); err != nil {
		return err
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return core.Errorf(core.ErrUnavailable, "slirp4netns made no network: %w", err).
			WithHint("it needs /dev/net/tun to be writable for this user")
	}
	return nil
}

func deadline(ctx context.Context, most time.Duration) time.Time {
	end := time.Now().Add(most)
	if first, has := ctx.Deadline(); has && first.Before(end) {
		return first
	}
	return end
}

// Stage runs if this process was started as the stage, and reports whether it was. A main calls
// it before anything else.
func Stage() (was bool, err error) {
	if len(os.Args) < 2 || os.Args[0] != stageName {
		return false, nil
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return true, err
	}
	if err := bar(strings.Split(os.Getenv(barredVariable), ",")); err != nil {
		return true, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return true, err
	}
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return true, err
		}
	}
	return true, unix.Exec(os.Args[1], os.Args[1:], bareEnv())
}

// barredVariable tells the stage what to bar: networks, separated by commas.
const barredVariable = "BOXWRIGHT_BARRED"

// barred are the networks that no box reaches: link-local ones, where clouds keep their machines'
// credentials, and the host's own addresses, where it may offer what it offers nobody else.
func barred(own []net.Addr) string {
	networks := []string{"169.254.0.0/16", "224.0.0.0/4"}
	for _, address := range own {
		network, ok := address.(*net.IPNet)
		if !ok || network.IP.To4() == nil || network.IP.IsLoopback() || tunnelNetwork().Contains(network.IP) {
			continue // the tunnel carries nothing else
		}
		networks = append(networks, network.IP.String()+"/32")
	}
	return strings.Join(networks, ",")
}

// tunnelNetwork is what slirp4netns makes.
func tunnelNetwork() *net.IPNet {
	return &net.IPNet{IP: net.IPv4(10, 0, 2, 0), Mask: net.CIDRMask(24, 32)}
}

// bar makes the stage's namespace unable to reach networks, by routes: what runs in the box has no
// right to change them.
func bar(networks []string) error {
	for _, text := range networks {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			return err
		}
		if err := addUnreachable(network); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return nil
}

// addUnreachable adds a route that refuses, as "ip route add unreachable" does.
func addUnreachable(to *net.IPNet) error {
	family, address := unix.AF_INET, to.IP.To4()
	if address == nil {
		family, address = unix.AF_INET6, to.IP
	}
	ones, _ := to.Mask.Size()
	body := []byte{byte(family), byte(ones), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNREACHABLE, 0, 0, 0, 0} //nolint:gosec // both are small
	attribute := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(address)))                                                     //nolint:gosec // at most 20
	attribute = append(binary.NativeEndian.AppendUint16(attribute, unix.RTA_DST), address...)
	return routeRequest(append(body, attribute...))
}

// routeRequest sends one request to make a route, and returns the kernel's answer.
func routeRequest(body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()                                                   // it is not used any more
	message := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body))) //nolint:gosec // small
	message = binary.NativeEndian.AppendUint16(message, unix.RTM_NEWROUTE)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	message = append(append(message, make([]byte, 8)...), body...) // sequence and port
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return errors.Join(err, errors.New("the kernel did not answer about a route"))
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 { //nolint:gosec // the kernel's own negative number
		return unix.Errno(-code) //nolint:gosec // an error's number
	}
	return nil
}
