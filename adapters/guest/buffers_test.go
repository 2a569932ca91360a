package guest_test

import (
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// eachBuffer is what the kernel holds for a program, as much of it as it gives.
var eachBuffer = map[string]string{
	"sockets": `
while True:
    a, b = socket.socketpair()
    fill(a); fill(b)
    all.append((a, b))`,
	"closed sockets": `
while True:
    a, b = socket.socketpair()
    fill(a, 64)
    all.append(b)`,
	"pipes": `
while True:
    r, w = os.pipe()
    os.set_blocking(w, False)
    os.write(w, bytes(65536))`,
	"tcp": `
l = socket.create_server(('127.0.0.1', 0))
while True:
    a = socket.create_connection(l.getsockname())
    b, _ = l.accept()
    fill(a, 1 << 16)
    all.append((a, b))`,
}

const moreBuffers = `
import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
all = []
def fill(s, piece=4096):
    s.setblocking(False)
    try:
        while True: s.send(bytes(piece))
    except BlockingIOError: pass
print('a', flush=True)
for i in range(10):
    if os.fork() == 0: break
else: time.sleep(60)
try:
%s
except OSError: time.sleep(60) # as many as there may be
`

// TestB40Buffers: what lies in sockets and pipes is memory of the box's too.
func TestB40Buffers(t *testing.T) {
	with(t, func(t *testing.T, k keeper) {
		for name, code := range eachBuffer {
			t.Run(name, func(t *testing.T) {
				g, exit, ok := k.bomb(t, strings.Replace(moreBuffers, "%s", strings.ReplaceAll(code, "\n", "\n    "), 1), "256m")
				if !ok {
					return
				}
				if !exit.OOMKilled || !strings.Contains(strings.Join(exit.Warnings, ";"), "its limit is 256 MiB") {
					t.Error(describe(exit))
				}
				want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
			})
		}
	}, agent, runsc)
}

// TestOrdinaryBuffers: some dozens of sockets and pipes are nothing to speak of.
func TestOrdinaryBuffers(t *testing.T) {
	with(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, append(k.option(), "--memory", "64m")...)
		exit := run(t, g, python(`
import os, socket, time
l = socket.create_server(('127.0.0.1', 0))
all = [l] + [socket.socketpair() for i in range(60)] + [os.pipe() for i in range(60)]
for i in range(30): all += [socket.create_connection(l.getsockname()), l.accept()]
time.sleep(.5)
print('done')`))
		if core.StatusOf(exit) != core.StatusOK {
			t.Error(describe(exit))
		}
	}, agent, runsc)
}
