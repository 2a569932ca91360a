package guest_test

import (
	"strings"
	"testing"
)

// unshare makes the calls with which code would be root somewhere, and those that come with it.
const unshare = `
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
N = {'x86_64': dict(clone=56, unshare=272, setns=308, mount=165, umount=166, pivot=155, vmsplice=278),
     'aarch64': dict(clone=220, unshare=97, setns=268, mount=40, umount=39, pivot=41, vmsplice=75)}[os.uname().machine]

def expect(want, number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in args))
    if result == 0 and number == N['clone']: os._exit(0)
    got = errno.errorcode.get(ctypes.get_errno()) if result < 0 else 'ok'
    if got not in want: print(number, args, 'gives', got, 'not', want)

flags = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
for flag in flags:
    expect(['EPERM'], N['unshare'], flag)
    expect(['EPERM'], N['unshare'], flag | 0x10000000)
    expect(['EPERM'], N['clone'], flag | 17, 0, 0, 0, 0)
    expect(['EPERM'], N['clone'], flag | 0x10000000 | 17, 0, 0, 0, 0)
expect(['EPERM'], N['unshare'], 0x80)
args = (ctypes.c_uint64 * 11)(0x10000000 | 0x20000, 0, 0, 0, 17)
expect(['ENOSYS'], 435, args, 88)
expect(['EPERM'], N['setns'], os.open('/proc/self/ns/user', 0) if os.path.exists('/proc/self/ns/user') else 0, 0)
expect(['EPERM'], N['mount'], b'none', b'/tmp', b'tmpfs', 0, 0)
expect(['EPERM'], N['umount'], b'/tmp', 0)
expect(['EPERM'], N['pivot'], b'/tmp', b'/tmp')
for number in 428, 429, 430, 431, 432, 433, 442: expect(['EPERM', 'ENOSYS'], number, 0, 0, 0, 0, 0)
expect(['ENOSYS'], N['vmsplice'], 1, 0, 0, 0)
print(os.getuid(), open('/proc/self/status').read().count('CapEff:\t0000000000000000'))
`

// TestNoNamespaces: code is nobody's root, whatever the engine's own filter allows.
func TestNoNamespaces(t *testing.T) {
	with(t, func(t *testing.T, k keeper) {
		// As engines that trust their user namespaces: without this, Docker's own filter would answer.
		g := start(t, pythonImage, append(k.option(), "--security-opt", "seccomp=unconfined")...)
		want{stdout: "1000 1\n"}.check(t, run(t, g, python(unshare)))
		want{stdout: "1000 1\n"}.check(t, run(t, g, command("python3", "-c", unshare)))
	}, agent, runsc)
}

// TestWaysToStart: threads and processes start in every way that programs know.
func TestWaysToStart(t *testing.T) {
	const code = `
import asyncio, multiprocessing, os, signal, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
def double(x): return 2 * x
if __name__ == '__main__':
    out = []
    t = threading.Thread(target=lambda: out.append('thread')); t.start(); t.join()
    out.append(subprocess.check_output(['echo', 'sub'], text=True).strip())
    out.append(subprocess.check_output(['echo', 'session'], text=True, start_new_session=True, preexec_fn=lambda: None).strip())
    out.append(str(os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)[1]))
    out.append(str(os.system('exit 0')))
    for way in 'fork', 'spawn', 'forkserver':
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(way)) as pool:
            out.append(f'{way} {sum(pool.map(double, range(4)))}')
    async def main():
        p = await asyncio.create_subprocess_exec('echo', 'async', stdout=asyncio.subprocess.PIPE)
        return (await p.communicate())[0].decode().strip()
    out.append(asyncio.run(main()))
    print(', '.join(out))
`
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		const all = "thread, sub, session, 0, 0, fork 12, spawn 12, forkserver 12, async\n"
		write := "import subprocess, sys\nopen('/tmp/m.py', 'w').write(" + quoted(code) + ")\nprint(subprocess.check_output([sys.executable, '/tmp/m.py'], text=True), end='')"
		want{stdout: all}.check(t, run(t, g, python(write)))
		want{stdout: all}.check(t, run(t, g, command("python3", "/tmp/m.py")))
	})
}

func quoted(code string) string { return "r'''" + strings.ReplaceAll(code, "'''", `"""`) + "'''" }

// bySignal has the kernel send the agent signals, in each way that is told in a call's arguments.
const bySignal = `
import ctypes, errno, fcntl, os, signal, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(f):
    try: f()
    except OSError as e: return errno.errorcode[e.errno]
    return 'ok'
def owned(by):
    a, b = socket.socketpair()
    answer = attempt(lambda: by(a))
    fcntl.fcntl(a, 10, 9) # F_SETSIG
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    b.send(b'x')
    return answer
for target in 1, -1:
    print(owned(lambda a: fcntl.fcntl(a, 8, target)),
          owned(lambda a: fcntl.fcntl(a, 15, struct.pack('ii', 1 if target > 0 else 2, 1))),
          owned(lambda a: fcntl.ioctl(a, 0x8901, struct.pack('i', target))),
          owned(lambda a: fcntl.ioctl(a, 0x8902, struct.pack('i', target))), sep='')
clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]
for flags in 9, 0x8000 | 9: # a child that ends with this signal, to whoever inherits it, or at once to the caller's parent
    if os.fork() == 0:
        pid = libc.syscall(clone, ctypes.c_long(flags), *[None] * 4)
        if pid == 0:
            time.sleep(.2)
        os._exit(0)
    os.wait()
for at in '/proc/1', '/proc/1/task/1':
    fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    libc.syscall(424, fd, 9, None, 0)
    libc.syscall(424, fd, 9, None, 1)
timer = ctypes.c_int()
event = ctypes.create_string_buffer(struct.pack('qiii', 0, 9, 4, 1), 64) # SIGEV_THREAD_ID
create = {'x86_64': 222, 'aarch64': 107}[os.uname().machine]
print('timer', libc.syscall(create, 1, event, ctypes.byref(timer)))
time.sleep(.5)
print('on')
`

// TestNoSignalsByTheKernel: code that may not signal the agent has nobody else do it.
func TestNoSignalsByTheKernel(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		refused := strings.Repeat("EPERM", 4) + "\n"
		want{stdout: refused + refused + "timer -1\non\n"}.check(t, run(t, g, python(bySignal)))
		want{stdout: refused + refused + "timer -1\non\n"}.check(t, run(t, g, command("python3", "-c", bySignal)))
	})
}

// TestNoNamespacesOnPodman runs the test where the engine's own filter lets code have namespaces.
func TestNoNamespacesOnPodman(t *testing.T) {
	onPodman(t, "podman", "BOXWRIGHT_PODMAN", "^TestNoNamespaces$/^agent$")
}
