package gvisor

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/boxwright/boxwright/core"
)

// The sizes of what is writable in a box besides the workspace.
const (
	homeBytes = 64 << 20
	shmBytes  = 64 << 20
)

// What the box's kernel needs for itself, at most. It is a process of the host's, in the same
// control group, so this comes on top of what the box may use.
const (
	kernelBytes        = 64 << 20
	kernelProcessBytes = 256 << 10 // for each of the box's processes
)

// The host sees several threads for each of the box's. What counts the box's own is the agent; the
// control group's limit protects the host, should the agent fail.
const (
	hostThreads     = 8
	hostThreadsBase = 1024
	maxCounted      = 1 << 22 // more processes than this no kernel has
)

// cpuPeriod is longer than the kernel's usual one, in microseconds: to start a box and its
// interpreter takes two processors a moment, and would be stopped in the middle.
const cpuPeriod = 250_000

// startCPUs is how many processors a box has at least until it runs: three processes make it, which takes a quarter longer
// on one. Programs see as many, as they do in a control group: gVisor shows two at least.
const startCPUs = 2

// order is what a box needs besides its spec. plan has no input but this and the spec.
type order struct {
	ID       string
	Gofers   bool     // see runsc
	CanWait  bool     // a box can be kept on one processor after its start; see runsc
	Platform string   // "" is runsc's default
	Folders  folders  // only for the paths of what is in them
	Root     string   // the root file system's folder
	Binds    []string // folders of the host that the root file system has at the same path
	Masks    []string // folders below them that the box sees empty
	Env      []string // the image's
	Agent    string   // the folder that holds the agent
	UID, GID int      // of the plugin; 0 is root
	Limits   map[core.Limit]core.Enforcement
	Cgroups  cgroups
	MaxCPUs  float64 // of the machine; more would bound nothing
}

// request is runsc's form of a box.
type request struct {
	Spec *specs.Spec // the bundle's config.json
	Args []string    // of runsc
	DNS  string      // the bundle's resolv.conf; "" without a network
	CPUs int         // how many processors the box may run on; 0 is all

	StartCPUs int // how many it is started on
}

// plan turns a spec into runsc's request. It does no I/O.
func plan(spec core.BoxSpec, o order) request {
	r := request{Spec: &specs.Spec{Version: specs.Version, Linux: &specs.Linux{}}}
	planProcess(&r, spec, o)
	planRoot(&r, spec, o)
	planFiles(&r, spec)
	planVolumes(&r, spec, o)
	planUsers(&r, o)
	planLimits(&r, spec.Limits, o)
	planNetwork(&r, spec.Network, o)
	planArgs(&r, spec, o)
	return r
}

// planProcess makes the agent the box's first process, with nothing of the host's environment.
func planProcess(r *request, spec core.BoxSpec, o order) {
	r.Spec.Hostname = "box"
	r.Spec.Process = &specs.Process{
		User:            specs.User{UID: core.GuestUID, GID: core.GuestGID},
		Args:            append([]string{core.GuestAgent}, agentArgs(spec, o.Limits)...),
		Env:             guestEnv(o.Env),
		Cwd:             core.GuestWork,
		Capabilities:    &specs.LinuxCapabilities{},
		NoNewPrivileges: true,
	}
}

// agentArgs has the agent watch the memory in any case. The control group holds, but what the
// kernel ends then may be the whole box, whose run would end without a word.
func agentArgs(spec core.BoxSpec, limits map[core.Limit]core.Enforcement) []string {
	watched := maps.Clone(limits)
	if watched == nil {
		watched = map[core.Limit]core.Enforcement{}
	}
	watched[core.LimitMemory] = core.EnforcedRlimit
	return append(spec.AgentArgs(watched), "--stream-fd", strconv.Itoa(firstStreamFD))
}

// guestEnv is the image's environment. What has no PATH finds no program.
func guestEnv(image []string) []string {
	for _, entry := range image {
		if strings.HasPrefix(entry, "PATH=") {
			return slices.Clone(image)
		}
	}
	return append(slices.Clone(image), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

func planRoot(r *request, spec core.BoxSpec, o order) {
	r.Spec.Root = &specs.Root{Path: o.Root, Readonly: true}
	for _, dir := range o.Binds {
		r.bind(dir, dir, false)
	}
	for _, dir := range o.Masks {
		r.tmpfs(dir, "ro", "size=4096", "mode=0555")
	}
	if spec.Network == core.NetworkFull {
		r.bind(resolvFile(o), "/etc/resolv.conf", false)
	}
}

func resolvFile(o order) string { return path.Join(o.Folders.box(o.ID), "resolv.conf") }

// planFiles makes the writable folders: in the box's memory, bounded, gone with the box.
func planFiles(r *request, spec core.BoxSpec) {
	user := []string{fmt.Sprintf("uid=%d", core.GuestUID), fmt.Sprintf("gid=%d", core.GuestGID)}
	size := func(n int64) string { return fmt.Sprintf("size=%d", n) }
	r.Spec.Mounts = append(r.Spec.Mounts,
		specs.Mount{Destination: "/proc", Type: "proc", Source: "proc"},
		specs.Mount{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
	)
	r.tmpfs("/dev/shm", size(shmBytes), "mode=1777")
	r.tmpfs(core.GuestTmp, size(spec.Limits.DiskBytes/2), "mode=1777")
	r.tmpfs(core.GuestHome, append(user, size(homeBytes), "mode=0755")...)
	mounted := func(m core.Mount) bool { return m.Path == core.GuestWork }
	if !slices.ContainsFunc(spec.Mounts, mounted) {
		r.tmpfs(core.GuestWork, append(user, size(spec.Limits.DiskBytes), "mode=0755")...)
	}
}

// planVolumes mounts the agent and the spec's volumes; one on a writable folder takes its place.
func planVolumes(r *request, spec core.BoxSpec, o order) {
	r.bind(o.Agent, core.GuestBin, false)
	for _, m := range spec.Mounts {
		at := func(have specs.Mount) bool { return have.Destination == m.Path }
		r.Spec.Mounts = slices.DeleteFunc(r.Spec.Mounts, at)
		r.bind(o.Folders.data(m.Volume), m.Path, m.Writable)
	}
}

func (r *request) tmpfs(at string, options ...string) {
	r.Spec.Mounts = append(r.Spec.Mounts, specs.Mount{
		Destination: at, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev"}, options...),
	})
}

func (r *request) bind(from, at string, writable bool) {
	mode := "ro"
	if writable {
		mode = "rw"
	}
	r.Spec.Mounts = append(r.Spec.Mounts, specs.Mount{
		Destination: at, Type: "bind", Source: from, Options: []string{"rbind", "nosuid", "nodev", mode},
	})
}

// planUsers gives the box a user namespace of its own when the plugin is an ordinary user's: the
// box's user is the caller there, so that volumes are the caller's, and nobody else exists. It is
// the one mapping that needs no privilege and no subordinate ids.
func planUsers(r *request, o order) {
	for _, kind := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace} {
		r.Spec.Linux.Namespaces = append(r.Spec.Linux.Namespaces, specs.LinuxNamespace{Type: kind})
	}
	if o.UID == 0 {
		return
	}
	r.Spec.Linux.Namespaces = append(r.Spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	r.Spec.Linux.UIDMappings = []specs.LinuxIDMapping{{ContainerID: core.GuestUID, HostID: uint32(o.UID), Size: 1}} //nolint:gosec // a user id
	r.Spec.Linux.GIDMappings = []specs.LinuxIDMapping{{ContainerID: core.GuestGID, HostID: uint32(o.GID), Size: 1}} //nolint:gosec // a group id
}

// planLimits uses the control groups that there are.
func planLimits(r *request, l core.Limits, o order) {
	if !o.Cgroups.CPU {
		r.CPUs = int(math.Ceil(math.Min(l.CPUs, math.MaxInt16)))
		r.StartCPUs = r.CPUs
		if o.CanWait {
			r.StartCPUs = max(r.CPUs, startCPUs)
		}
	}
	if !o.Cgroups.any() {
		return
	}
	res := &specs.LinuxResources{}
	if o.Cgroups.Memory {
		memory := l.MemoryBytes + kernelBytes + min(l.PIDs, maxCounted)*kernelProcessBytes
		res.Memory = &specs.LinuxMemory{Limit: &memory, Swap: &memory}
	}
	if o.Cgroups.CPU {
		cpus := l.CPUs
		if o.MaxCPUs > 0 {
			cpus = math.Min(cpus, o.MaxCPUs)
		}
		quota, period := int64(cpus*cpuPeriod), uint64(cpuPeriod)
		res.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	if o.Cgroups.PIDs {
		fence := min(l.PIDs, maxCounted)*hostThreads + hostThreadsBase
		res.Pids = &specs.LinuxPids{Limit: fence}
	}
	r.Spec.Linux.CgroupsPath = o.Cgroups.path(o.ID)
	r.Spec.Linux.Resources = res
}

// planNetwork makes a box with a network start in a namespace that the backend has made for it,
// where the host's own network is not; see network.go. An ordinary user is the box's user there.
func planNetwork(r *request, n core.Network, o order) {
	if n != core.NetworkFull {
		return
	}
	r.DNS = "nameserver " + tunnelDNS + "\n"
	if o.UID != 0 {
		r.Spec.Linux.UIDMappings[0].HostID = core.GuestUID
		r.Spec.Linux.GIDMappings[0].HostID = core.GuestGID
	}
}

// planTunnel is slirp4netns' command line, for the namespaces of process pid. It hands nothing on
// to the host's loopback, and says on descriptor 3 that it is ready. In its sandbox it has no
// rights, and no files but /etc and /run.
func planTunnel(pid int, sandbox bool) []string {
	args := []string{"--configure", "--mtu=" + tunnelMTU, "--cidr=" + tunnelNet, "--disable-host-loopback", "--enable-seccomp"}
	if sandbox {
		args = append(args, "--enable-sandbox")
	}
	return append(args, "--ready-fd=3", strconv.Itoa(pid), "tap0")
}

// planArgs is the command line that starts the box and leaves it running.
func planArgs(r *request, spec core.BoxSpec, o order) {
	flags := map[string]string{
		"root":               o.Folders.runsc(),
		"log":                path.Join(o.Folders.box(o.ID), "runsc.log"), // only of its own failures
		"network":            "none",
		"directfs":           "true", // all processes are this user's, by which they are found
		"host-uds":           "none",
		"overlay2":           "none", // the root is read-only
		"file-access-mounts": fileAccess(spec),
	}
	if spec.Network == core.NetworkFull {
		flags["network"] = "host" // of the namespace that it starts in
	}
	if !o.Cgroups.any() {
		flags["ignore-cgroups"] = "true"
	}
	if o.Gofers {
		flags[goferNetwork] = "new"
	}
	if o.Platform != "" {
		flags["platform"] = o.Platform
	}
	if r.CPUs < r.StartCPUs {
		flags[noSpinning] = "true"
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		r.Args = append(r.Args, "--"+name+"="+flags[name])
	}
	passed := fmt.Sprintf("--pass-fd=%d:%d", firstStreamFD, firstStreamFD)
	r.Args = append(r.Args, "run", passed, "--detach", bundleFlag+o.Folders.box(o.ID), o.ID)
}

const bundleFlag = "--bundle="

// startsBox reports whether a command line ends as that does which planArgs makes.
func startsBox(args []string, id string) bool {
	if len(args) < 6 {
		return false
	}
	end := args[len(args)-5:]
	return end[0] == "run" && strings.HasPrefix(end[1], "--pass-fd=") && end[2] == "--detach" && strings.HasPrefix(end[3], bundleFlag) && path.Base(end[3]) == id
}

// fileAccess lets the box's kernel remember what is in its mounts, which makes imports fast,
// unless another box might change that meanwhile.
func fileAccess(spec core.BoxSpec) string {
	writable := func(m core.Mount) bool { return m.Writable }
	if slices.ContainsFunc(spec.Mounts, writable) {
		return "shared"
	}
	return "exclusive"
}
