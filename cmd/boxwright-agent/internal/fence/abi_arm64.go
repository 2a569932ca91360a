package fence

import "golang.org/x/sys/unix"

// abis are those of arm64 and of 32 bits.
var abis = []abi{
	{
		arch: unix.AUDIT_ARCH_AARCH64, prlimit: unix.SYS_PRLIMIT64,
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
		arch: unix.AUDIT_ARCH_ARM, prlimit: 369,
		setpriority: 97, ioprioSet: 314,
		schedSetparam: 154, schedSetscheduler: 156,
		schedSetattr: 380, schedSetaffinity: 241,
		kill: 37, tkill: 238, tgkill: 268, queueinfo: 178, tgqueueinfo: 363, pidfdOpen: 434,
		fcntl: 55, fcntl64: 221, ioctl: 54, clone: 120, unshare: 337, setns: 375,
		mounts: [4]uint32{21, 52, 52, 218}, vmsplice: 343,
	},
}
