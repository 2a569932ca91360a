package guest_test

import (
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// attack makes each system call against the agent, one of its threads and the waiting interpreter, which
// are of the same user. A refusal is EPERM, or ENOSYS where an engine's own filter is ahead of ours.
const attack = `
import ctypes, errno, os, resource, struct
libc = ctypes.CDLL(None, use_errno=True)
N = {'x86_64': dict(prlimit=302, setpriority=141, ioprio=251, param=142, scheduler=144, attr=314, affinity=203, migrate=256, move=279),
     'aarch64': dict(prlimit=261, setpriority=140, ioprio=30, param=118, scheduler=119, attr=274, affinity=122, migrate=238, move=239)}[os.uname().machine]

def expect(what, want, number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in args))
    got = errno.errorcode.get(ctypes.get_errno()) if result < 0 else 'ok'
    gone = want == 'ok' and got == 'ESRCH' # a copy of the interpreter that has ended meanwhile
    if got != want and not gone:
        print(what, 'gives', got, 'not', want)

def buffer(data): return ctypes.create_string_buffer(data, max(len(data), 64))

me = os.getpid()
def ours(pid):
    try:
        return '\nUid:\t1000\t' in open(f'/proc/{pid}/status').read()
    except OSError:
        return False # it has ended meanwhile
others = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != me and ours(p)] # the agent and the interpreter
threads = [int(t) for t in os.listdir('/proc/1/task')]
if len(others) < 2 or len(threads) < 2: print('nobody to attack:', others, threads)
low = {resource.RLIMIT_CPU: 1, resource.RLIMIT_NOFILE: 3, resource.RLIMIT_AS: 4096, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NPROC: 1}
zero, mask = buffer(struct.pack('i', 0)), buffer(b'\x01')
idle = buffer(struct.pack('IIQiIQQQ', 48, 5, 0, 0, 0, 0, 0, 0))
for pid in others + threads:
    for what, n in low.items():
        expect(f'prlimit {what} of {pid}', 'EPERM', N['prlimit'], pid, what, buffer(struct.pack('QQ', n, n)), 0)
    expect(f'prlimit read of {pid}', 'ok', N['prlimit'], pid, 7, 0, buffer(b''))
    expect(f'setpriority of {pid}', 'EPERM', N['setpriority'], 0, pid, 19)
    expect(f'setpriority of group {pid}', 'EPERM', N['setpriority'], 1, pid, 19)
    expect(f'ioprio_set of {pid}', 'EPERM', N['ioprio'], 1, pid, 3 << 13)
    expect(f'sched_setparam of {pid}', 'EPERM', N['param'], pid, zero)
    expect(f'sched_setscheduler of {pid}', 'EPERM', N['scheduler'], pid, 5, zero)
    expect(f'sched_setattr of {pid}', 'EPERM', N['attr'], pid, idle, 0)
expect('setpriority of the user', 'EPERM', N['setpriority'], 2, 0, 19)
expect('setpriority of user 1000', 'EPERM', N['setpriority'], 2, 1000, 19)
expect('ioprio_set of the user', 'EPERM', N['ioprio'], 3, 1000, 3 << 13)
expect('sched_setaffinity of the agent', 'EPERM', N['affinity'], 1, 8, mask)
expect('migrate_pages of the agent', 'EPERM', N['migrate'], 1, 64, mask, mask)
expect('move_pages of the agent', 'EPERM', N['move'], 1, 1, buffer(b''), 0, buffer(b''), 2)
expect('own affinity', 'ok', N['affinity'], me, 8, mask)
expect('own nice', 'ok', N['setpriority'], 0, 0, 15)
expect('own ioprio', 'ok', N['ioprio'], 1, 0, 3 << 13)
expect('own policy', 'ok', N['scheduler'], 0, 3, zero)
for pid in others + threads:
    if pid != 1: expect(f'sched_setaffinity of {pid}', 'ok', N['affinity'], pid, 8, mask) # cannot be told from a thread of one's own
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
if resource.getrlimit(resource.RLIMIT_NOFILE) != (100, 100): print('own limits cannot be set')
`

// TestLimitsOfTheAgent: code can change its own limits and priority, but neither the agent's nor those of
// what waits for the next run.
func TestLimitsOfTheAgent(t *testing.T) { onEach(t, testLimitsOfTheAgent) }

func testLimitsOfTheAgent(t *testing.T, k keeper) {
	g := start(t, pythonImage, k.option()...)
	nice := "[0, 0] [0, 0]"
	if k == agent {
		nice = "[10, 0] [0, 0]" // programs give way to it
	}
	const state = `
import os, resource
print([resource.prlimit(p, n) for p in (0, 1, os.getppid()) for n in range(16)])
print([os.getpriority(os.PRIO_PROCESS, p) for p in (0, 1)], [os.sched_getscheduler(p) for p in (0, 1)], os.sched_getaffinity(0), os.sched_getaffinity(1))`
	const count = "import os; print(len(os.sched_getaffinity(0)))"
	processors := string(run(t, g, command("python3", "-c", count)).Stdout.Head)
	before := run(t, g, python(state))
	if core.StatusOf(before) != core.StatusOK || !strings.Contains(string(before.Stdout.Head), nice) {
		t.Fatal(describe(before))
	}
	want{}.check(t, run(t, g, python(attack)))
	want{stdout: string(before.Stdout.Head)}.check(t, run(t, g, python(state)))
	for range 5 { // on one thread or another
		want{stdout: processors}.check(t, run(t, g, command("python3", "-c", count)))
	}
	made := "for i in range(50): open(f'f{i}', 'w').write('x')\nprint('x' * 10**6)"
	if exit := run(t, g, python(made)); len(exit.Files) != 50 || exit.Stdout.Total != 1_000_001 || len(exit.Warnings) > 0 {
		t.Error(describe(exit))
	}
}

// TestLimitsOfTheAgentFromACommand: what is started without the interpreter has the filter too.
func TestLimitsOfTheAgentFromACommand(t *testing.T) {
	g := start(t, pythonImage)
	exit := run(t, g, command("python3", "-c", "import resource; resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))"))
	if exit.Code != 1 || !strings.Contains(string(exit.Stderr.Head), "PermissionError: [Errno 1]") {
		t.Error(describe(exit))
	}
	want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
}

// TestEverythingIsTakenBeforeTheAgent: what a command starts at once is as exposed as the command.
func TestEverythingIsTakenBeforeTheAgent(t *testing.T) {
	g := start(t, busyboxImage)
	for range 20 {
		exit := run(t, g, command("sh", "-c", "cat /proc/self/oom_score_adj"))
		want{stdout: "1000\n"}.check(t, exit)
	}
	exit := run(t, g, command("sh", "-c", "sleep 0.5; cat /proc/1/oom_score_adj")) // not when the program has just begun
	want{stdout: "0\n"}.check(t, exit)
}
