package fence

import (
	"encoding/binary"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// call is what a filter sees, with as many arguments as it looks at.
type call struct {
	arch, number uint32
	args         [3]uint64
}

// answerTo runs the filter as the kernel does; 0 is that the call may be made.
func answerTo(t *testing.T, p code, c call) unix.Errno {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], c.number)
	binary.LittleEndian.PutUint32(data[4:], c.arch)
	for i, arg := range c.args {
		binary.LittleEndian.PutUint64(data[16+8*i:], arg)
	}
	var loaded uint32
	for at := 0; ; at++ {
		switch do := p[at]; do.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			loaded = binary.LittleEndian.Uint32(data[do.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			loaded &= do.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			if loaded == do.K && do.Code&unix.BPF_JGT == 0 || loaded > do.K && do.Code&unix.BPF_JGT != 0 {
				at += int(do.Jt)
			} else {
				at += int(do.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			if do.K == unix.SECCOMP_RET_ALLOW {
				return 0
			}
			if do.K&^unix.SECCOMP_RET_DATA != unix.SECCOMP_RET_ERRNO {
				t.Fatalf("answers %#x", do.K)
			}
			return unix.Errno(do.K & unix.SECCOMP_RET_DATA)
		default:
			t.Fatalf("unknown instruction %+v", do)
		}
	}
}

func TestFilter(t *testing.T) {
	const threads = 12
	p := program(abis, threads)
	const upper, pointer = 1 << 32, 0x7fff_0000_0000
	for _, a := range abis {
		for _, c := range []struct {
			name    string
			number  uint32
			args    [3]uint64
			refused bool
		}{
			{"read own limits", a.prlimit, [3]uint64{0, 7, 0}, false},
			{"set own limits", a.prlimit, [3]uint64{0, 7, pointer}, false},
			{"read the agent's limits", a.prlimit, [3]uint64{1, 7, 0}, false},
			{"set the agent's limits", a.prlimit, [3]uint64{1, 7, pointer}, true},
			{"by a low address", a.prlimit, [3]uint64{1, 7, 0x1000}, true},
			{"with an upper half", a.prlimit, [3]uint64{1 | upper, 7, pointer}, true},
			{"set limits by one of the agent's threads", a.prlimit, [3]uint64{9, 7, pointer}, true},
			{"own, with an upper half", a.prlimit, [3]uint64{upper, 7, pointer}, false},
			{"be nice", a.setpriority, [3]uint64{unix.PRIO_PROCESS, 0, 5}, false},
			{"group is nice", a.setpriority, [3]uint64{unix.PRIO_PGRP, 0, 5}, false},
			{"agent is nice", a.setpriority, [3]uint64{unix.PRIO_PROCESS, 1, 19}, true},
			{"agent's group is nice", a.setpriority, [3]uint64{unix.PRIO_PGRP, 1, 19}, true},
			{"user is nice", a.setpriority, [3]uint64{unix.PRIO_USER, 0, 19}, true},
			{"user is nice, with an upper half", a.setpriority, [3]uint64{unix.PRIO_USER | upper, 1000, 19}, true},
			{"idle disk", a.ioprioSet, [3]uint64{1, 0, 3 << 13}, false},
			{"idle disk for the agent", a.ioprioSet, [3]uint64{1, 1, 3 << 13}, true},
			{"idle disk for the user", a.ioprioSet, [3]uint64{3, 0, 3 << 13}, true},
			{"batch", a.schedSetscheduler, [3]uint64{0, 3, pointer}, false},
			{"batch for the agent", a.schedSetscheduler, [3]uint64{1, 3, pointer}, true},
			{"parameters", a.schedSetparam, [3]uint64{0, pointer}, false},
			{"parameters for the agent", a.schedSetparam, [3]uint64{1, pointer}, true},
			{"attributes", a.schedSetattr, [3]uint64{0, pointer}, false},
			{"attributes for the agent", a.schedSetattr, [3]uint64{1, pointer}, true},
			{"own processors", a.schedSetaffinity, [3]uint64{0, 8, pointer}, false},
			{"a thread's processors", a.schedSetaffinity, [3]uint64{70, 8, pointer}, false},
			{"the agent's processors", a.schedSetaffinity, [3]uint64{1, 8, pointer}, true},
			{"signal to the agent", a.kill, [3]uint64{1, 9}, true},
			{"to one of its threads", a.kill, [3]uint64{threads, 9}, true},
			{"to the agent, with an upper half", a.kill, [3]uint64{1 | upper, 9}, true},
			{"to another process", a.kill, [3]uint64{threads + 1, 9}, false},
			{"to all", a.kill, [3]uint64{math.MaxUint64, 9}, false},
			{"to the own group", a.kill, [3]uint64{0, 9}, false},
			{"to a group", a.kill, [3]uint64{math.MaxUint32 - 70, 9}, false},
			{"to a thread of the agent's", a.tkill, [3]uint64{7, 9}, true},
			{"to an own thread", a.tkill, [3]uint64{70, 6}, false},
			{"to a named thread of the agent's", a.tgkill, [3]uint64{1, 7, 9}, true},
			{"of Go's runtime", a.tgkill, [3]uint64{1, 7, uint64(unix.SIGURG)}, false},
			{"to a named thread", a.tgkill, [3]uint64{70, 70, 6}, false},
			{"with a value", a.queueinfo, [3]uint64{1, 9, pointer}, true},
			{"with a value, to another", a.queueinfo, [3]uint64{70, 9, pointer}, false},
			{"with a value, to a thread", a.tgqueueinfo, [3]uint64{1, 7, 9}, true},
			{"descriptor of the agent", a.pidfdOpen, [3]uint64{1, 0}, true},
			{"descriptor of another", a.pidfdOpen, [3]uint64{70, 0}, false},
			{"another call", 0xfff, [3]uint64{1, 1, 1}, false},
		} {
			if got := answerTo(t, p, call{a.arch, c.number, c.args}); got != 0 != c.refused || got == unix.ENOSYS {
				t.Errorf("%#x %s: %v", a.arch, c.name, got)
			}
		}
	}
	if answerTo(t, p, call{arch: unix.AUDIT_ARCH_S390X}) != unix.EPERM {
		t.Error("a machine that is not known may call")
	}
}

// TestNoOtherNumbers: x32 has numbers of its own for some calls, such as 514 for ioctl, so it has none at all.
func TestNoOtherNumbers(t *testing.T) {
	p := program(abis, 1)
	for _, a := range abis {
		for _, number := range []uint32{x32, x32 | 39, x32 | 514, x32 | 524, math.MaxUint32} {
			if got := answerTo(t, p, call{arch: a.arch, number: number}); got != unix.ENOSYS {
				t.Errorf("%#x %#x: %v", a.arch, number, got)
			}
		}
	}
}

// x32 marks calls of that interface.
const x32 = 0x40000000

func TestNamespaces(t *testing.T) {
	p := program(abis, 1)
	const thread, process, upper = 0x3d0f00, uint64(unix.SIGCHLD), 1 << 32
	for _, a := range abis {
		expect := func(what string, want unix.Errno, number uint32, args ...uint64) {
			t.Helper()
			c := call{arch: a.arch, number: number}
			copy(c.args[:], args)
			if got := answerTo(t, p, c); got != want {
				t.Errorf("%#x %s: %v, want %v", a.arch, what, got, want)
			}
		}
		for _, flag := range []uint64{0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000} {
			expect("clone", unix.EPERM, a.clone, flag|process)
			expect("clone with more", unix.EPERM, a.clone, flag|thread|upper)
			expect("unshare", unix.EPERM, a.unshare, flag)
			expect("unshare with more", unix.EPERM, a.unshare, flag|0x400)
		}
		expect("unshare of time", unix.EPERM, a.unshare, 0x80)
		expect("a thread", 0, a.clone, thread)
		expect("a process", 0, a.clone, process)
		expect("a process that is waited for", 0, a.clone, 0x4100|process)
		expect("own descriptors", 0, a.unshare, 0x400)
		expect("clone3", unix.ENOSYS, 435, 0x7fff_0000_0000, 88)
		expect("a signal by a descriptor", unix.ENOSYS, 424, 3, 9)
		expect("setns", unix.EPERM, a.setns, 3)
		expect("vmsplice", unix.ENOSYS, a.vmsplice, 1)
		for _, number := range append([]uint32{428, 429, 430, 431, 432, 433, 442, 467}, a.mounts[:]...) {
			expect("mounts", unix.EPERM, number)
		}
	}
}

// TestOwners: a descriptor's signals go to whom it belongs to, and to nobody else.
func TestOwners(t *testing.T) {
	p := program(abis, 1)
	for _, a := range abis {
		for _, c := range []struct {
			number  uint32
			command uint64
			want    unix.Errno
		}{
			{a.fcntl, 8, unix.EPERM},
			{a.fcntl64, 8, unix.EPERM},
			{a.fcntl, 15, unix.EPERM},
			{a.fcntl64, 15 | 1<<32, unix.EPERM},
			{a.ioctl, 0x8901, unix.EPERM},
			{a.ioctl, 0x8902 | 1<<32, unix.EPERM},
			{a.fcntl, unix.F_DUPFD_CLOEXEC, 0},
			{a.fcntl64, unix.F_SETLK, 0},
			{a.fcntl, unix.F_SETFL, 0},
			{a.fcntl, unix.F_GETOWN, 0},
			{a.ioctl, unix.TCGETS, 0},
			{a.ioctl, 0x541b, 0},
		} {
			if got := answerTo(t, p, call{a.arch, c.number, [3]uint64{3, c.command, 1}}); got != c.want {
				t.Errorf("%#x call %d, command %#x: %v", a.arch, c.number, c.command, got)
			}
		}
	}
}

// TestJumps: a filter's jumps are counted in one byte, and its length in two.
func TestJumps(t *testing.T) {
	for _, a := range abis {
		if n := len(a.filter(1)); n > math.MaxUint8 {
			t.Errorf("%#x: %d instructions", a.arch, n)
		}
	}
}
