package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// making is held while a network namespace is made.
var making sync.Mutex

// listenElsewhere listens on another machine, as it were: in a network namespace that boxes with a
// network reach through this machine, as they reach a company's own servers.
func listenElsewhere(t *testing.T) net.Listener {
	t.Helper()
	require(t, "root")
	making.Lock() // the ip command disturbs another one that makes the first namespace of all
	defer making.Unlock()
	n := rand.IntN(1 << 16)
	name, near := fmt.Sprintf("bw-e2e-%04x", n), fmt.Sprintf("bwe%04x", n)
	subnet := fmt.Sprintf("10.%d.%d.", 192+n>>8&63, n&255)
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	ip("netns", "add", name)
	t.Cleanup(func() { ip("netns", "del", name) }) // the pair of interfaces goes with it
	ip("link", "add", near, "type", "veth", "peer", "name", "far", "netns", name)
	ip("addr", "add", subnet+"1/24", "dev", near)
	ip("link", "set", near, "up")
	ip("-n", name, "addr", "add", subnet+"2/24", "dev", "far")
	ip("-n", name, "link", "set", "far", "up")
	ip("-n", name, "route", "add", "default", "via", subnet+"1")
	listener, err := listenIn("/run/netns/"+name, subnet+"2:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// listenIn listens in a network namespace. The thread that went there ends with its goroutine.
func listenIn(namespace, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread()
		file, err := os.Open(namespace)
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			_ = file.Close()
		}
		if err != nil {
			results <- result{nil, err}
			return
		}
		listener, err := net.Listen("tcp", address)
		results <- result{listener, err}
	}()
	r := <-results
	return r.listener, r.err
}
