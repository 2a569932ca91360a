//go:build remote && containers_image_openpgp

package podman

import (
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// hostInfo is what is read of the service's report on itself: only what all versions of Podman
// write alike.
type hostInfo struct {
	Host struct {
		Arch        string   `json:"arch"`
		OS          string   `json:"os"`
		CPUs        int      `json:"cpus"`
		CgroupVer   string   `json:"cgroupVersion"`
		Controllers []string `json:"cgroupControllers"`
		Runtime     struct {
			Name string `json:"name"`
		} `json:"ociRuntime"`
		RootlessNet  string `json:"rootlessNetworkCmd"` // from Podman 5.2 on
		SlirpNetwork struct {
			Executable string `json:"executable"`
		} `json:"slirp4netns"`
		Pasta struct {
			Executable string `json:"executable"`
		} `json:"pasta"`
		Security struct {
			Rootless bool `json:"rootless"`
			Seccomp  bool `json:"seccompEnabled"`
			SELinux  bool `json:"selinuxEnabled"`
		} `json:"security"`
	} `json:"host"`
	Store struct {
		Driver string `json:"graphDriverName"`
	} `json:"store"`
	Version struct {
		Version string `json:"Version"`
	} `json:"version"`
}

// facts is what a service can do.
type facts struct {
	version  string
	os, arch string // as in GOOS and GOARCH
	cpus     int
	rootless bool
	selinux  bool
	sandbox  bool            // the runtime runs a kernel of its own for each box
	userNet  string          // what a box reaches a network through: "pasta", "slirp4netns"; "" is the bridge
	groups   map[string]bool // the control groups that bound a box: "memory", "cpu", "pids"
	limits   map[core.Limit]core.Enforcement
	warnings []string
}

func factsOf(info hostInfo, host, ociRuntime string) facts {
	h := info.Host
	f := facts{
		version:  info.Version.Version,
		os:       "linux",
		arch:     daemon.GoArch(h.Arch),
		cpus:     h.CPUs,
		rootless: h.Security.Rootless,
		selinux:  h.Security.SELinux,
		sandbox:  isSandbox(info, ociRuntime),
		userNet:  userNetwork(info),
	}
	f.groups = groupsOf(info)
	f.limits = limitsOf(f.groups, f.sandbox)
	if h.OS != "" {
		f.os = h.OS
	}
	f.warnings = warningsOf(info, f.limits, host)
	return f
}

// limitsOf tells what makes each limit hold. Without its control group, which an ordinary user
// has on cgroup v2 only, and only if it was delegated, memory and processes are bounded by the agent.
func limitsOf(groups map[string]bool, sandbox bool) map[core.Limit]core.Enforcement {
	by := func(group string, instead core.Enforcement) core.Enforcement {
		if groups[group] {
			return core.EnforcedCgroup
		}
		return instead
	}
	pids := by("pids", core.EnforcedRlimit)
	if sandbox {
		// The cgroup counts the sandbox's own threads, not the processes inside.
		pids = core.EnforcedRlimit
	}
	return map[core.Limit]core.Enforcement{
		core.LimitMemory:  by("memory", core.EnforcedRlimit),
		core.LimitCPU:     by("cpu", core.EnforcedNot),
		core.LimitPIDs:    pids,
		core.LimitDisk:    core.EnforcedSandbox,
		core.LimitNetwork: core.EnforcedSandbox,
	}
}

func groupsOf(info hostInfo) map[string]bool {
	groups := map[string]bool{}
	if info.Host.Security.Rootless && info.Host.CgroupVer == "v1" {
		return groups // Podman ignores limits there, whatever it lists
	}
	for _, name := range []string{"memory", "cpu", "pids"} {
		groups[name] = slices.Contains(info.Host.Controllers, name)
	}
	return groups
}

// userNetwork is the program that gives a box its network; "" is the engine's bridge. Root's boxes do without the
// bridge where they can: it takes the lowest hardware address of those that are on it, so that a box that comes or
// goes cuts the others off, until they ask for the gateway again.
func userNetwork(info hostInfo) string {
	h := info.Host
	switch {
	case !h.Security.Rootless && h.SlirpNetwork.Executable == "":
		return "" // pasta is for rootless boxes only
	case !h.Security.Rootless:
		return "slirp4netns"
	case h.RootlessNet != "":
		return h.RootlessNet
	case h.SlirpNetwork.Executable != "":
		return "slirp4netns"
	case h.Pasta.Executable != "":
		return "pasta"
	}
	return ""
}

// isSandbox looks at the engine's own choice if the operator makes none.
func isSandbox(info hostInfo, ociRuntime string) bool {
	if ociRuntime == "" {
		ociRuntime = info.Host.Runtime.Name
	}
	return daemon.IsSandbox(ociRuntime)
}

// warningsOf is what an operator should know.
func warningsOf(info hostInfo, limits map[core.Limit]core.Enforcement, host string) []string {
	list := []string{daemon.LinkLocalReached}
	if limits[core.LimitCPU] == core.EnforcedNot {
		list = append(list, controllersMissing(info))
	}
	if info.Store.Driver == "vfs" {
		list = append(list, `the storage driver vfs copies the image for every box, which takes seconds: set driver = "overlay" in storage.conf`)
	}
	if !info.Host.Security.Seccomp {
		list = append(list, "the engine has no seccomp profile: system calls are not filtered")
	}
	if strings.HasPrefix(host, "tcp://") {
		list = append(list, "the service is reached over the network, without a password: whoever reaches it may do as its user")
	}
	return list
}

func controllersMissing(info hostInfo) string {
	const what = "CPU time is not limited, and memory and processes only by the agent's resource limits"
	switch {
	case !info.Host.Security.Rootless:
		return what + ": this machine's control groups lack a controller"
	case info.Host.CgroupVer == "v1":
		return what + ": rootless Podman needs cgroup v2 (boot with systemd.unified_cgroup_hierarchy=1), or use rootful Podman"
	}
	return "some limits are not enforced by control groups: delegate the controllers cpu, memory and pids to this user (Delegate=cpu memory pids in user@.service)"
}

func (f facts) platform() string { return f.os + "/" + f.arch }
