package fence

import "golang.org/x/sys/unix"

// abis are those of amd64 and i386. That of x32, which shares amd64's mark, is none: see highest.
var abis = []abi{
	{
		arch: unix.AUDIT_ARCH_X86_64, prlimit: unix.SYS_PRLIMIT64,
		setpriority: unix.SYS_SETPRIORITY, ioprioSet: unix.SYS_IOPRIO_SET,
		schedSetparam: unix.SYS_SCHED_SETPARAM, schedSetscheduler: unix.SYS_SCHED_SETSCHEDULER,
		schedSetattr: unix.SYS_SCHED_SETATTR, schedSetaffinity: unix.SYS_SCHED_SETAFFINITY,
		kill: unix.SYS_KILL, tkill: unix.SYS_TKILL, tgkill: unix.SYS_TGKILL,
		queueinfo: unix.SYS_RT_SIGQUEUEINFO, tgqueueinfo: unix.SYS_RT_TGSIGQUEUEINFO, pidfdOpen: unix.SYS_PIDFD_OPEN,
		fcntl: unix.SYS_FCNTL, fcntl64: unix.SYS_FCNTL, ioctl: unix.SYS_IOCTL,
		clone: unix.SYS_CLONE, unshare: unix.SYS_UNSHARE, setns: unix.SYS_SETNS,
		mounts:   [4]uint32{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT},
		vmsplice: unix.SYS_VMSPLICE,
	},
	{
		arch: unix.AUDIT_ARCH_I386, prlimit: 340,
		setpriority: 97, ioprioSet: 289,
		schedSetparam: 154, schedSetscheduler: 156,
		schedSetattr: 351, schedSetaffinity: 241,
		kill: 37, tkill: 238, tgkill: 270, queueinfo: 178, tgqueueinfo: 335, pidfdOpen: 434,
		fcntl: 55, fcntl64: 221, ioctl: 54, clone: 120, unshare: 310, setns: 346,
		mounts: [4]uint32{21, 22, 52, 217}, vmsplice: 316,
	},
}
