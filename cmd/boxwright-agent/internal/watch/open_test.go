package watch

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// alone gives the test, and what it starts, a network of its own, where nobody else's sockets come and go. It
// reports whether it may.
func alone(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	if unix.Unshare(unix.CLONE_NEWNET) != nil {
		return false
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	loopback.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestBuffersOfAProcess: what pipes and sockets hold shows, and hardly more than that.
func TestBuffersOfAProcess(t *testing.T) {
	const fill = `
import os, socket
def fill(s, piece=4096):
    s.setblocking(False)
    try:
        while True: s.send(b'x' * piece)
    except BlockingIOError: pass
`
	for name, c := range map[string]struct {
		code        string
		least, most int64 // KiB
	}{
		"pipes":        {"import os\nall = [os.pipe() for i in range(100)]", 6400, 7500},
		"fifos":        {"import os, tempfile\nf = tempfile.mkdtemp() + '/f'\nos.mkfifo(f)\na = os.open(f, os.O_RDWR)\nb = os.dup(a)", 64, 700},
		"local":        {fill + "all = [socket.socketpair() for i in range(50)]\nfor a, b in all: fill(a); fill(b)", 50 * 300, 50 * 500},
		"sender gone":  {fill + "all = []\nfor i in range(50):\n    a, b = socket.socketpair()\n    fill(a, 1)\n    all.append(b)", 50 * 208, 1 << 30},
		"datagrams":    {fill + "all = []\nfor i in range(50):\n    a, b = socket.socketpair(type=socket.SOCK_DGRAM)\n    fill(a)\n    all.append(b)", 50 * 208, 1 << 30},
		"in flight":    {fill + "import array\na, b = socket.socketpair()\nfor i in range(50):\n    c, d = socket.socketpair()\n    fill(c); fill(d)\n    a.sendmsg([b'x'], [(1, 1, array.array('i', [c.fileno(), d.fileno()]))])\nc = d = None", 50 * 300, 50 * 500},
		"tcp":          {fill + "l = socket.create_server(('127.0.0.1', 0))\nall = []\nfor i in range(5):\n    a = socket.create_connection(l.getsockname()); b, _ = l.accept()\n    fill(a, 1 << 16)\n    all += [a, b]", 5 * 1000, 1 << 30},
		"new":          {"import socket\nall = [socket.socket() for i in range(40)]", 40 * 416, 40*416 + 700},
		"a few, empty": {"import socket, os\nall = [socket.socketpair() for i in range(60)] + [os.pipe() for i in range(40)]", 2560, 3500},
	} {
		t.Run(name, func(t *testing.T) {
			if !alone(t) {
				t.Skip("needs to be root; TestB40Buffers tests the same in a box")
			}
			before := socketBytes(nil)
			m := &procMeter{root: "/proc"}
			got := (m.open([]process{{pid: helper(t, c.code)}}).buffers - before) >> 10
			if got < c.least || got > c.most {
				t.Errorf("%d KiB, want %d to %d", got, c.least, c.most)
			}
		})
	}
}

func TestPipeBytes(t *testing.T) {
	for _, c := range []struct{ pipes, soft, want int64 }{
		{0, 64 << 20, 0},
		{10, 64 << 20, 640 << 10},
		{100_000, 64 << 20, 64<<20 + 100_000*8<<10},
		{100_000, 0, 100_000 * 64 << 10},
	} {
		if got := pipeBytes(c.pipes, c.soft); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestSendersThatAreGone: the messages of those that are there count with them.
func TestSendersThatAreGone(t *testing.T) {
	s := socketTable{known: map[uint64]bool{0: true, 7: true}, sum: 5, most: 1000}
	s.queue = []received{{peer: 7}, {peer: 8}, {peer: 0}, {peer: 7, datagram: true}}
	if got := s.bytes(); got != 3005 {
		t.Errorf("%d bytes", got)
	}
}

func TestAttributes(t *testing.T) {
	text := []byte{8, 0, 2, 0, 9, 0, 0, 0, 5, 0, 6, 0, 1, 0, 0, 0, 12, 0, 5, 0, 1, 0, 0, 0, 2, 0, 0, 0}
	got := attributes(text)
	if len(got) != 2 || !slices.Equal(got[2], []uint32{9}) || !slices.Equal(got[5], []uint32{1, 2}) {
		t.Errorf("got %v", got)
	}
	for _, bad := range [][]byte{nil, {1}, {3, 0, 1, 0}, {200, 0, 1, 0, 1, 2, 3, 4}} {
		if got := attributes(bad); len(got) > 0 {
			t.Errorf("%v has %v", bad, slices.Collect(maps.Keys(got)))
		}
	}
	if got := memory([]uint32{1, 100, 10, 100, 100, 12, 100, 4}); got != 17 {
		t.Errorf("a socket of %d", got)
	}
	if got := memory([]uint32{1, 100, 10}); got != 11 {
		t.Errorf("a socket of an older kernel: %d", got)
	}
}
