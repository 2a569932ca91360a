package fence

import "golang.org/x/sys/unix"

// abi is one way of calling the kernel, with its numbers of the calls that are fenced.
type abi struct {
	arch uint32

	prlimit, setpriority, ioprioSet                                  uint32
	schedSetparam, schedSetscheduler, schedSetattr, schedSetaffinity uint32
	kill, tkill, tgkill, queueinfo, tgqueueinfo, pidfdOpen           uint32

	fcntl, fcntl64, ioctl, clone, unshare, setns, vmsplice uint32

	mounts [4]uint32 // mount, umount, umount2, pivot_root
}

// Where the kernel puts what the filter looks at. Both machines are little-endian.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
	argSize  = 8
)

const (
	prioUser   = 2 // PRIO_USER, of setpriority
	ioprioUser = 3 // IOPRIO_WHO_USER
	agentPID   = 1
	// highest is the last number that a call may have. Those of x32 are higher, and some of them are not
	// amd64's: whoever means ioctl there says 514.
	highest = 0x3fffffff
)

type code = []unix.SockFilter

// program is the filter. For all calls but the fenced ones it looks at nothing but number and machine, so
// the kernel (since 5.11) finds out once that they are allowed and never runs it for them.
func program(abis []abi, threads uint32) code {
	p := code{load(atArch)}
	for _, a := range abis {
		p = append(p, when(a.arch, a.filter(threads))...)
	}
	return append(p, refuse())
}

func (a abi) filter(threads uint32) code {
	p := code{load(atNumber), {Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: highest, Jf: 1}, missing()}
	for _, c := range append(a.targets(threads), a.namespaces()...) {
		p = append(p, when(c.number, c.check)...)
	}
	return append(p, allow())
}

// fenced is a call and what decides about it.
type fenced struct {
	number uint32
	check  code
}

// targets are the calls that act on a process. The most frequent come first.
func (a abi) targets(threads uint32) []fenced {
	return []fenced{
		{a.fcntl, checkCommand(unix.F_SETOWN, unix.F_SETOWN_EX)},
		{a.fcntl64, checkCommand(unix.F_SETOWN, unix.F_SETOWN_EX)},
		{a.ioctl, checkCommand(fiosetown, siocspgrp)},
		{a.prlimit, checkPrlimit()},
		{a.setpriority, checkPriority(prioUser)},
		{a.ioprioSet, checkPriority(ioprioUser)},
		{a.schedSetparam, checkSelf(0)},
		{a.schedSetscheduler, checkSelf(0)},
		{a.schedSetattr, checkSelf(0)},
		{a.schedSetaffinity, checkAgent()},
		{a.kill, checkTarget(threads)},
		{a.tkill, checkTarget(threads)},
		{a.tgkill, checkThreadSignal()},
		{a.queueinfo, checkTarget(threads)},
		{a.tgqueueinfo, checkAgent()},
		{a.pidfdOpen, checkTarget(threads)},
		// What a descriptor stands for a filter cannot see, and a folder of /proc is one too. Go and others
		// then call kill.
		{pidfdSendSignal, code{missing()}},
	}
}

// checkPrlimit lets everybody read limits, and set their own. The kernel does not look at the upper half
// of a number of a process, so neither do the checks.
func checkPrlimit() code {
	const limit = atArgs + 2*argSize
	p := code{load(limit)}
	p = append(p, when(0, append(append(code{load(limit + 4)}, when(0, code{allow()})...), checkSelf(0)...))...)
	return append(p, checkSelf(0)...)
}

// checkPriority is for calls whose second argument is a process, a group or a user. The agent has the
// same user; its group is one that code cannot get into.
func checkPriority(user uint32) code {
	return append(append(code{load(atArgs)}, when(user, code{refuse()})...), checkSelf(1)...)
}

// checkAgent refuses the agent only: threads are given processors by their numbers, in C libraries too.
func checkAgent() code {
	return append(append(code{load(atArgs)}, when(agentPID, code{refuse()})...), allow())
}

// checkTarget refuses the agent and those of its threads that there were when the fence was raised. Groups,
// which are negative, and 0, which is the caller's own, are no threads of the agent's.
func checkTarget(threads uint32) code {
	beyond := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: threads, Jf: 1}
	return append(append(code{load(atArgs)}, when(0, code{allow()})...), beyond, allow(), refuse())
}

// checkThreadSignal refuses the agent, but for the signal with which Go's runtime stirs the agent's own threads.
func checkThreadSignal() code {
	stir := append(append(code{load(atArgs + 2*argSize)}, when(uint32(unix.SIGURG), code{allow()})...), refuse())
	return append(append(code{load(atArgs)}, when(agentPID, stir)...), allow())
}

// checkSelf allows 0, which is the caller.
func checkSelf(argument uint32) code {
	return append(append(code{load(atArgs + argument*argSize)}, when(0, code{allow()})...), refuse())
}

// when does then, which must end in an answer, if what has been loaded is value.
func when(value uint32, then code) code {
	skip := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: uint8(len(then))} //nolint:gosec // a test sees to it
	return append(code{skip}, then...)
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func allow() unix.SockFilter { return answer(unix.SECCOMP_RET_ALLOW) }

func refuse() unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)) }

// missing is the answer of a kernel that has no such call.
func missing() unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)) }

func answer(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}
