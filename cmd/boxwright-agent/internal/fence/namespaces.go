package fence

import "golang.org/x/sys/unix"

// Calls that came after the machines had agreed on numbers.
const (
	pidfdSendSignal = 424
	openTree        = 428
	moveMount       = 429
	fsopen          = 430
	fsconfig        = 431
	fsmount         = 432
	fspick          = 433
	clone3          = 435
	mountSetattr    = 442
	openTreeAttr    = 467
)

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	// The two of ioctl that say to whom a descriptor's signals go.
	fiosetown = 0x8901
	siocspgrp = 0x8902
)

// namespaces are the calls with which code would be root in a place of its own: with file systems in memory
// that nobody counts, and with more of the kernel to attack. Some engines' own filters let them through.
func (a abi) namespaces() (all []fenced) {
	all = []fenced{
		{a.clone, checkFlags(newNamespaces)},
		{a.unshare, checkFlags(newNamespaces | unix.CLONE_NEWTIME)},
		// Its flags are in memory, where a filter cannot look. C libraries and Go then call clone.
		{clone3, code{missing()}},
		// Pages that it puts into a pipe can be parts of ones 512 times as big, all of which stays.
		{a.vmsplice, code{missing()}},
	}
	refused := append([]uint32{
		a.setns, openTree, moveMount, fsopen, fsconfig, fsmount, fspick, mountSetattr, openTreeAttr,
	}, a.mounts[:]...)
	for _, number := range refused {
		all = append(all, fenced{number, code{refuse()}})
	}
	return all
}

// checkFlags refuses a call whose first argument has one of the flags.
func checkFlags(flags uint32) code {
	masked := unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flags}
	return append(append(code{load(atArgs), masked}, when(0, code{allow()})...), refuse())
}

// checkCommand refuses the second argument to be one of two: those that choose whom the kernel sends signals
// about a descriptor. By them code could have it send any signal to the agent.
func checkCommand(one, other uint32) code {
	p := append(code{load(atArgs + argSize)}, when(one, code{refuse()})...)
	return append(append(p, when(other, code{refuse()})...), allow())
}
