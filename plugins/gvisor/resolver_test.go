package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyNamesOfALoopbackResolver: where the host's resolver is on loopback, a box has names
// resolved by it, and reaches nothing else at that address.
func TestOnlyNamesOfALoopbackResolver(t *testing.T) {
	users(t, func(t *testing.T, l *lab, as *syscall.Credential) {
		if os.Getuid() != 0 {
			require(t, "gvisor", errors.New("only root can give a plugin another resolv.conf"))
		}
		resolver := serveNames(t)
		port, reached := listenAt(t, resolver+":0")
		packets := listenPackets(t, resolver+":"+port)
		box := l.networkBox(t, withResolver(t, resolver, l.dir, buildPlugin(t, l.dir), as), nil)
		if got := l.python(t, as, box, "import socket; print(socket.gethostbyname('name.test'))"); strings.TrimSpace(got) != "192.0.2.9" {
			t.Errorf("the name is resolved to %q", got)
		}
		if got := l.python(t, as, box, connect(tunnelDNS, port)); !strings.Contains(got, "nreachable") {
			t.Errorf("TCP to the resolver's port %s: %s", port, got)
		}
		send := fmt.Sprintf("import socket\nto = (%q, %s)\ns = socket.socket(type=socket.SOCK_DGRAM)\ntry: s.sendto(b'x', to); print('sent')\nexcept OSError as e: print(e)", tunnelDNS, port)
		if got := l.python(t, as, box, send); !strings.Contains(got, "nreachable") {
			t.Errorf("UDP to the resolver's port %s: %s", port, got)
		}
		select {
		case address := <-reached:
			t.Errorf("somebody came to %s", address)
		case <-packets:
			t.Error("a packet came")
		default:
		}
	})
}

// withResolver is the plugin with a resolv.conf that names that resolver, as that user.
func withResolver(t *testing.T, resolver, dir, plugin string, as *syscall.Credential) string {
	t.Helper()
	conf, script := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "with-resolver")
	become := ""
	if as != nil {
		become = fmt.Sprintf("setpriv --reuid=%d --regid=%d --clear-groups ", as.Uid, as.Gid)
	}
	text := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount --bind %s /etc/resolv.conf && exec %s%s'\n", conf, become, plugin)
	if err := os.WriteFile(conf, []byte("nameserver "+resolver+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// serveNames answers that each name has the address 192.0.2.9, at a loopback address of its own.
func serveNames(t *testing.T) (resolver string) {
	t.Helper()
	resolver = fmt.Sprintf("127.77.%d.%d", rand.N(256), 1+rand.N(254))
	conn, err := net.ListenPacket("udp4", resolver+":53")
	if err != nil {
		require(t, "gvisor", err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			conn.WriteTo(answerName(query[:n]), from)
		}
	}()
	return resolver
}

// answerName answers a query, which ends with its one question's type and class.
func answerName(query []byte) []byte {
	const header, address = 12, "\x00\x01\x00\x01"
	if len(query) < header+4 {
		return nil
	}
	answer := bytes.Clone(query)
	answer[2], answer[3] = 0x81, 0x80 // a response, recursion available, no error
	if !strings.HasSuffix(string(query), address) {
		return answer // other kinds it has none of
	}
	answer[7] = 1                                                                           // the count of answers
	return append(answer, "\xc0\x0c"+address+"\x00\x00\x00\x01\x00\x04\xc0\x00\x02\x09"...) // the name as in the question, 1 s, 4 bytes
}

// listenPackets tells when something comes.
func listenPackets(t *testing.T, address string) <-chan struct{} {
	t.Helper()
	conn, err := net.ListenPacket("udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	came := make(chan struct{}, 1)
	go func() {
		if _, _, err := conn.ReadFrom(make([]byte, 1)); err == nil {
			came <- struct{}{}
		}
	}()
	return came
}
