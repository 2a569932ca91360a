package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// bombCases: programs that want all of the machine, one after the other of its means.
func bombCases() []testCase {
	return []testCase{
		{id: "bomb of memory in many processes", play: manyHungry},
		{id: "bomb of memory in files", play: hungryFiles},
		{id: "bomb of processes that hide", play: hidingForks},
		{id: "bomb of threads", play: threads},
		{id: "hog of processors", play: processorHog},
	}
}

// manyHungry: none of the processes is too big by itself.
func manyHungry(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {memory: 256MiB}\n"})
	r := s.run(t, program(`import os, time
print('before', flush=True)
for _ in range(16):
    if os.fork() == 0:
        hoard = []
        while True:
            hoard.append(bytearray(os.urandom(1 << 20)))
            time.sleep(0.005)
for _ in range(16): os.wait()
print('after')`, "timeout_seconds", 90))
	if r.isError || r.Stdout != "before\n" && r.Status != "ok" || !toldOfMemory(r) {
		t.Errorf("got %.3000s", r.raw)
	}
	stillWorks(t, s)
}

// hungryFiles: what lies in a box's files is memory too, and is bounded by their own limits.
func hungryFiles(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {memory: 256MiB, disk: 16MiB}\n"})
	r := s.run(t, program(`import os
total = 0
for folder in '/work', '/tmp', '/home/box', '/dev/shm':
    try:
        with open(os.path.join(folder, 'fill'), 'wb', buffering=0) as f:
            while True: total += f.write(bytes(1 << 20))
    except OSError: pass
    try: os.remove(os.path.join(folder, 'fill'))
    except OSError: pass
print(total >> 20 < 256)`))
	outcome{stdout: "True\n", any: true}.check(t, r)
	stillWorks(t, s)
}

// hidingForks: the children leave their group and session, close everything, and go on.
func hidingForks(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {pids: 64}\n"})
	r := s.run(t, program(`import os, time
made = 0
for _ in range(2000):
    try:
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, 100)
            time.sleep(60)
            os._exit(0)
        made += 1
    except OSError: break
print(made, flush=True)
os._exit(0)`, "timeout_seconds", 30))
	heldTo(t, r, 64)
	stillWorks(t, s)
	s.awaitNoBoxes(t)
}

func threads(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {pids: 64}\n"})
	r := s.run(t, program(`import os, threading, time
made = 0
try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        made += 1
except RuntimeError: pass
print(made, flush=True)
os._exit(0)`, "timeout_seconds", 30))
	heldTo(t, r, 64)
	stillWorks(t, s)
}

// heldTo wants a program that made processes to have been stopped at a limit: either the last one
// could not be made, and it says how many could, or the whole program was ended for it.
func heldTo(t *testing.T, r result, limit int) {
	t.Helper()
	made, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
	switch {
	case r.isError:
		t.Errorf("got %.3000s", r.raw)
	case r.Status == "ok" && (err != nil || made >= limit):
		t.Errorf("it made %q of %d: %.3000s", r.Stdout, limit, r.raw)
	case r.Status == "failed" && !strings.Contains(strings.Join(r.Warnings, "\n"), "processes"):
		t.Errorf("nothing is told of processes: %.3000s", r.raw)
	case r.Status != "ok" && r.Status != "failed":
		t.Errorf("got %.3000s", r.raw)
	}
}

// processorHog has more processes than it may use processors. What they used is told by the box's
// kernel, so that a busy machine cannot make it fail.
func processorHog(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {cpus: 0.5}\n"})
	r := s.run(t, program(`import os, time
began = time.monotonic()
for _ in range(4):
    if os.fork() == 0:
        while time.monotonic() - began < 4: pass
        os._exit(0)
for _ in range(4): os.wait()
took = time.monotonic() - began
used = os.times()
print((used.children_user + used.children_system) / took)`, "timeout_seconds", 60))
	if r.isError || r.Status != "ok" {
		t.Fatalf("got %.3000s", r.raw)
	}
	share, err := strconv.ParseFloat(strings.TrimSpace(r.Stdout), 64)
	if err != nil {
		t.Fatal(err)
	}
	most := 0.75
	if here().Backend == "gvisor" {
		most = 1.25 // its kernel counts the time in which the machine's kernel held it back; without a bound it is 2
	}
	if held := !here().isDeclared(cpuNotHeld); held && share > most {
		t.Errorf("four processes used %.2f processors of 0.5", share)
	}
	stillWorks(t, s)
}

// toldOfMemory: the record of the run, or of its children in its output, says that memory ran out.
func toldOfMemory(r result) bool {
	return r.Status == "oom_killed" || strings.Contains(strings.Join(r.Warnings, "\n"), "memory")
}

func stillWorks(t *testing.T, s *server) {
	t.Helper()
	outcome{stdout: "next\n"}.check(t, s.run(t, program("print('next')")))
}
