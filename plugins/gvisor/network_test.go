package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

// python runs a program in a box by runsc itself: the stand-in for the agent runs nothing.
func (l *lab) python(t *testing.T, as *syscall.Credential, box, code string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.runsc, "--root="+l.settings.Dir+"/runsc", "exec", "--user=1000:1000", box, "/usr/bin/env", "python3", "-I", "-c", code)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestNetworkDoesNotReachTheHost: a box with a network reaches neither what listens on the host,
// by whatever address, nor where clouds keep credentials.
func TestNetworkDoesNotReachTheHost(t *testing.T) {
	users(t, func(t *testing.T, l *lab, as *syscall.Credential) {
		port, reached := listen(t)
		box := l.networkBox(t, buildPlugin(t, l.dir), as)
		for _, target := range hostAddresses() {
			got := l.python(t, as, box, connect(target, port))
			if strings.Contains(got, "open") {
				t.Errorf("%s is reached", target)
			}
			if slices.Contains(cloudAddresses(), target) && !strings.Contains(got, "nreachable") && !strings.Contains(got, "No route") {
				t.Errorf("%s is not barred: %s", target, got)
			}
		}
		select {
		case address := <-reached:
			t.Errorf("somebody came to %s", address)
		default:
		}
		if got := l.python(t, as, box, "print(open('/etc/resolv.conf').read())"); !strings.Contains(got, tunnelDNS) {
			t.Errorf("its resolver is %q", got)
		}
	})
}

// networkBox is a box of that plugin's with a network and the machine's programs.
func (l *lab) networkBox(t *testing.T, plugin string, as *syscall.Credential) string {
	t.Helper()
	if network(t) == core.NetworkNone {
		require(t, "gvisor", errors.New("there is no slirp4netns"))
	}
	b := l.spawn(t, plugin, as)
	spec := daemontest.Spec(l.remoteEnv(t, b))
	image, err := b.EnsureImage(t.Context(), core.ImageHost, core.PullNever, nil)
	if err != nil {
		require(t, "gvisor", err)
	}
	spec.Image, spec.Digest, spec.Network = core.ImageHost, image.Digest, core.NetworkFull
	box, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Destroy(context.Background(), box.ID) })
	return box.ID
}

// connect is a program that says "open" if it comes through.
func connect(target, port string) string {
	return fmt.Sprintf("import socket\ntry: socket.create_connection((%q, %s), 2); print('open')\nexcept OSError as e: print(e)", target, port)
}

// listen listens on all addresses of the host, and tells at which somebody came.
func listen(t *testing.T) (port string, reached <-chan string) {
	t.Helper()
	return listenAt(t, "0.0.0.0:0")
}

func listenAt(t *testing.T, address string) (port string, reached <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	came := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			came <- conn.LocalAddr().String()
			conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port, came
}

// hostAddresses are all by which the host, or a cloud's own service, might be reached.
func hostAddresses() []string {
	targets := append(cloudAddresses(), "127.0.0.1", "::1", "fd00:ec2::254")
	own, _ := net.InterfaceAddrs()
	for _, address := range own {
		targets = append(targets, strings.Split(address.String(), "/")[0])
	}
	return targets
}

// cloudAddresses are those that the box's own kernel must refuse.
func cloudAddresses() []string {
	return []string{"10.0.2.2", "10.0.2.3", "10.0.2.255", "169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"}
}

func TestBarred(t *testing.T) {
	address := func(text string) net.Addr {
		ip, network, _ := net.ParseCIDR(text)
		return &net.IPNet{IP: ip, Mask: network.Mask}
	}
	got := strings.Split(barred([]net.Addr{address("127.0.0.1/8"), address("192.0.2.7/24"), address("192.0.2.7/32"), address("10.0.2.15/24"), address("fe80::1/64")}), ",")
	want := []string{"100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32", "192.0.2.7/32", "224.0.0.0/4"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestTunnelSandbox: a resolver that is not in /etc or /run would not be found in the sandbox.
func TestTunnelSandbox(t *testing.T) {
	link := filepath.Join(t.TempDir(), "resolv.conf")
	if os.Symlink("/etc/passwd", link); !tunnelSandbox(0, link) || tunnelSandbox(1001, link) {
		t.Error("root's can be in it, a user's cannot")
	}
	elsewhere := filepath.Join(t.TempDir(), "resolv.conf")
	os.WriteFile(elsewhere, nil, 0o600)
	if tunnelSandbox(0, elsewhere) || tunnelSandbox(0, link+".missing") {
		t.Error("the resolver is elsewhere")
	}
}
