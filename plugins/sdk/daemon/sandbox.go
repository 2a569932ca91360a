package daemon

import (
	"maps"
	"path"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// IsSandbox reports whether an OCI runtime, known by its name, its path or its shim's name
// (runsc, /usr/local/bin/runsc, io.containerd.runsc.v1), is gVisor's, which runs a kernel of its
// own for each box.
func IsSandbox(runtime string) bool {
	return strings.HasPrefix(strings.TrimPrefix(path.Base(runtime), "io.containerd."), "runsc")
}

// What a sandbox's own kernel may use beyond its box's limits.
const (
	sandboxBytes   = 256 << 20
	sandboxThreads = 512
	threadsPerTask = 4 // of the host's, for one process or thread inside
)

// Widen leaves a sandbox room for its own kernel, whose threads and memory are in the same control
// group as what runs inside. The agent keeps the box to its limits (AgentLimits); the control group
// bounds both together, and if the agent is too late, it ends the whole box.
func Widen(l core.Limits) core.Limits {
	l.MemoryBytes += sandboxBytes
	l.PIDs = l.PIDs*threadsPerTask + sandboxThreads
	return l
}

// AgentLimits are those that the agent enforces, of an engine that enforces limits: in a sandbox
// those of memory and processes too, before the control group would end the sandbox and all that
// is in it.
func AgentLimits(limits map[core.Limit]core.Enforcement, sandbox bool) map[core.Limit]core.Enforcement {
	all := map[core.Limit]core.Enforcement{}
	maps.Copy(all, limits)
	if sandbox {
		all[core.LimitMemory], all[core.LimitPIDs] = core.EnforcedRlimit, core.EnforcedRlimit
	}
	return all
}
