package guest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// eachMemory is what a program can fill in its own way.
var eachMemory = map[string]string{
	"at once":     "x = bytearray(10**10)",
	"bit by bit":  "x = []\nwhile True: x.append(bytearray(10**6))",
	"children":    "import os\nfor i in range(3): os.fork()\nx = []\nwhile True: x.append(bytearray(10**6))",
	"no name":     "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, bytes(10**6))",
	"shared":      "import mmap\nx = mmap.mmap(-1, 10**9)\nfor i in range(0, 10**9, 4096): x[i] = 1",
	"files":       "for i in range(3): open(('/work', '/tmp', '/home/box')[i] + '/f', 'wb').write(bytes(60 * 10**6))\nx = []\nwhile True: x.append(bytearray(10**6))",
	"undumpable":  "import ctypes\nctypes.CDLL(None).prctl(4, 0)\nx = []\nwhile True: x.append(bytearray(10**6))",
	"own session": "import os\nif os.fork() == 0:\n    os.setsid()\n    x = []\n    while True: x.append(bytearray(10**6))\nos.wait()\nos.kill(os.getpid(), 9)",
}

// TestB40Memory: whoever keeps the limit, the program ends by it, and the box serves the next one.
func TestB40Memory(t *testing.T) { onEach(t, testB40Memory) }

func testB40Memory(t *testing.T, k keeper) {
	for name, code := range eachMemory {
		if k == runc && name != "at once" && name != "children" {
			continue // a control group does not care
		}
		t.Run(name, func(t *testing.T) {
			g, exit, ok := k.bomb(t, "print('a')\n"+code, "256m")
			if !ok {
				return
			}
			if !exit.OOMKilled || exit.Signal != "SIGKILL" || exit.Code != 137 || string(exit.Stdout.Head) != "a\n" {
				t.Error(describe(exit))
			}
			if k != runc && !strings.Contains(strings.Join(exit.Warnings, ";"), "its limit is 256 MiB") {
				t.Errorf("nobody was told: %s", describe(exit))
			}
			if name != "files" { // which stay
				want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
			}
		})
	}
}

// TestB40MemoryOfAChild: the kernel takes a child of the program; the agent, which has seen only that the box
// is full, takes all.
func TestB40MemoryOfAChild(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, append(k.option(), "--memory", "256m")...)
		exit := run(t, g, command("sh", "-c", `python3 -c "x = bytearray(10**10)"; echo on`))
		switch {
		case k != runc && !exit.OOMKilled:
			t.Error(describe(exit))
		case k == runc && (exit.OOMKilled || string(exit.Stdout.Head) != "on\n" || !strings.Contains(strings.Join(exit.Warnings, ";"), "out of memory")):
			t.Error(describe(exit))
		}
		want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
	})
}

// TestSharedMemoryCountsOnce: copies of a process share what none of them changes, and so do mappings of a file.
func TestSharedMemoryCountsOnce(t *testing.T) {
	with(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, append(k.option(), "--memory", "256m")...)
		const code = `
import mmap, os, time
x = b'x' * (100 << 20)
m = mmap.mmap(-1, 40 << 20)
m[:] = b'm' * len(m)
f = open('/work/f', 'w+b')
f.write(b'f' * (30 << 20)); f.flush()
g = mmap.mmap(f.fileno(), 0)
sum(g[::4096])
for i in range(6):
    if os.fork() == 0:
        sum(x[::4096]); sum(m[::4096]); sum(g[::4096])
        time.sleep(.5)
        os._exit(0)
for i in range(6): os.wait()
print('done')`
		exit := run(t, g, python(code))
		want{stdout: "done\n", files: []string{fmt.Sprintf("f:%d", 30<<20)}}.check(t, exit)
	}, agent, runsc)
}

// checkTooMany is for a program that the agent ended because it had too many processes.
func checkTooMany(t *testing.T, exit core.Exit) {
	t.Helper()
	told := strings.Join(exit.Warnings, ";")
	if core.StatusOf(exit) != core.StatusFailed || exit.Signal != "SIGKILL" || !strings.Contains(told, fmt.Sprintf("processes and threads; its limit is %d", maxTasks)) {
		t.Error(describe(exit))
	}
}

// TestB37Processes: as many as the limit allows, and no more.
func TestB37Processes(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, append(k.option(), "--memory", "1g")...) // copies of Python share little in gVisor
		want{stdout: "90\n"}.check(t, run(t, g, python(`
import threading
stop = threading.Event()
all = [threading.Thread(target=stop.wait) for i in range(90)]
for one in all: one.start()
print(threading.active_count() - 1)
stop.set()`)))
		for name, code := range map[string]string{
			"threads": "import threading, time\nfor i in range(300): threading.Thread(target=time.sleep, args=(2,), daemon=True).start()\ntime.sleep(2)",
			"forks":   "import os, time\nfor i in range(300):\n    if os.fork() == 0: time.sleep(2); os._exit(0)",
		} {
			t.Run(name, func(t *testing.T) {
				exit := run(t, g, python(code))
				switch {
				case k == agent:
					checkTooMany(t, exit)
				case exit.Code != 1 || !strings.Contains(string(exit.Stderr.Head), "can't start new thread") && !strings.Contains(string(exit.Stderr.Head), "Resource temporarily unavailable"):
					t.Error(describe(exit))
				}
				want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
			})
		}
		if k == agent { // the others' is among the timeouts
			checkTooMany(t, run(t, g, python("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass")))
			checkTooMany(t, run(t, g, command("sh", "-c", "f() { f | f & }; f; sleep 20")))
			nothingLeft(t, g)
		}
	})
}

// TestLimitsOnRootlessPodman runs the agent's own limits where they are needed most: on an engine that enforces
// none where control groups are of version 1.
func TestLimitsOnRootlessPodman(t *testing.T) {
	onPodman(t, "podman-rootless", "BOXWRIGHT_PODMAN_ROOTLESS", "^TestB37Processes$/^agent$|^TestB40Memory$/^agent$/^(at_once|children)$|^TestSharedMemoryCountsOnce$/^agent$|^TestB40Buffers$/^agent$/^(sockets|pipes)$|^TestOrdinaryBuffers$/^agent$")
}
