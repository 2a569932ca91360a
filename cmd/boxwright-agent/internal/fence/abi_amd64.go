package fence

import "golang.org/x/sys/unix"

// abis are those of amd64 (and x32, see notX32) and i386.
var abis = []abi{
	{
		arch: unix.AUDIT_ARCH_X86_64, prlimit: unix.SYS_PRLIMIT64,
		setpriority: unix.SYS_SETPRIORITY, ioprioSet: unix.SYS_IOPRIO_SET,
		schedSetparam: unix.SYS_SCHED_SETPARAM, schedSetscheduler: unix.SYS_SCHED_SETSCHEDULER,
		schedSetattr: unix.SYS_SCHED_SETATTR, schedSetaffinity: unix.SYS_SCHED_SETAFFINITY,
		kill: unix.SYS_KILL, tkill: unix.SYS_TKILL, tgkill: unix.SYS_TGKILL,
		queueinfo: unix.SYS_RT_SIGQUEUEINFO, tgqueueinfo: unix.SYS_RT_TGSIGQUEUEINFO, pidfdOpen: unix.SYS_PIDFD_OPEN,
	},
	{
		arch: unix.AUDIT_ARCH_I386, prlimit: 340,
		setpriority: 97, ioprioSet: 289,
		schedSetparam: 154, schedSetscheduler: 156,
		schedSetattr: 351, schedSetaffinity: 241,
		kill: 37, tkill: 238, tgkill: 270, queueinfo: 178, tgqueueinfo: 335, pidfdOpen: 434,
	},
}
