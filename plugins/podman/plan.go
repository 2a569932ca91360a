//go:build remote && containers_image_openpgp

package podman

import (
	"fmt"
	"maps"
	"math"
	"path"

	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/image/v5/manifest"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// The sizes of what is writable in a box besides the workspace.
const (
	homeBytes = 64 << 20
	shmBytes  = 64 << 20
)

// order is what a box needs besides its spec. plan has no input but this and the spec.
type order struct {
	Name string // of the container
	From origin
	// AgentFolder is where the engine keeps the agent's volume, on its own machine.
	AgentFolder string
	Runtime     string // "" is the engine's default
	Facts       facts  // of the engine
}

// plan turns a spec into the engine's request. It does no I/O.
func plan(spec core.BoxSpec, o order) *specgen.SpecGenerator {
	s := specgen.NewSpecGenerator(o.From.id, false)
	s.Name = o.Name
	s.OCIRuntime = o.Runtime
	s.Labels = spec.Labels.Map()
	s.Labels[daemon.LabelImage] = spec.Image
	planProcess(s, spec, o)
	planLimits(s, spec.Limits, o.Facts)
	planSecurity(s)
	planFiles(s, spec.Limits.DiskBytes)
	planMounts(s, spec, o)
	planNetwork(s, spec.Network, o.Facts)
	planHost(s, o.AgentFolder)
	return s
}

// planProcess makes the agent the box's PID 1, whatever the image says, and keeps its output out
// of the engine's logs: they would fill the host's disk. The environment is the image's and
// nothing else.
func planProcess(s *specgen.SpecGenerator, spec core.BoxSpec, o order) {
	s.Entrypoint = []string{core.GuestAgent}
	s.Command = spec.AgentArgs(daemon.AgentLimits(o.Facts.limits, o.Facts.sandbox))
	s.User = fmt.Sprintf("%d:%d", core.GuestUID, core.GuestGID)
	s.WorkDir = core.GuestWork
	s.Hostname = "box"
	s.Umask = "0022"
	s.UnsetEnvAll = yes()
	s.Env = maps.Clone(o.From.env)
	s.StopTimeout = new(uint)
	s.RestartPolicy = "no"
	s.LogConfiguration = &specgen.LogConfig{Driver: "none"}
	s.HealthConfig = &manifest.Schema2HealthConfig{Test: []string{"NONE"}}
}

// planLimits passes on what the engine can make hold: some refuse a box with a limit that they
// cannot enforce. Memory is the sum of memory and swap, so that nothing is swapped out.
func planLimits(s *specgen.SpecGenerator, l core.Limits, f facts) {
	if f.sandbox {
		l = daemon.Widen(l)
	}
	s.ResourceLimits = &specs.LinuxResources{}
	if f.groups["memory"] {
		s.ResourceLimits.Memory = &specs.LinuxMemory{Limit: &l.MemoryBytes, Swap: &l.MemoryBytes}
	}
	if f.groups["pids"] {
		s.ResourceLimits.Pids = &specs.LinuxPids{Limit: l.PIDs}
	}
	if f.groups["cpu"] {
		s.ResourceLimits.CPU = cpuTime(l.CPUs, f.cpus)
	}
}

// cpuTime is a share of each tenth of a second. More than the machine has would bound nothing.
func cpuTime(cpus float64, have int) *specs.LinuxCPU {
	if have > 0 {
		cpus = math.Min(cpus, float64(have))
	}
	const microseconds = 100_000
	period, quota := uint64(microseconds), int64(cpus*microseconds)
	return &specs.LinuxCPU{Period: &period, Quota: &quota}
}

// planSecurity takes away what the engine gives by default. The engine's own seccomp and
// AppArmor profiles, and the user namespace of a rootless service, stay.
func planSecurity(s *specgen.SpecGenerator) {
	s.CapDrop = []string{"all"}
	s.NoNewPrivileges = yes()
	s.ReadOnlyFilesystem = yes()
	s.ReadWriteTmpfs = no()
	s.Privileged = no()
	s.Init = no()
	s.IpcNS = specgen.Namespace{NSMode: specgen.Private}
	s.UserNS = specgen.Namespace{NSMode: specgen.Host}
	s.Systemd = "false"
	s.SdNotifyMode = "ignore"
}

// planFiles makes the writable folders: in memory, bounded, gone with the box.
func planFiles(s *specgen.SpecGenerator, disk int64) {
	shm := int64(shmBytes)
	s.ShmSize = &shm
	s.Mounts = []specs.Mount{
		tmpfs(core.GuestWork, disk, 0o755),
		tmpfs(core.GuestHome, homeBytes, 0o755),
		tmpfs(core.GuestTmp, disk/2, 0o1777),
		// Podman puts what mounts.conf names there, on some systems the host's subscriptions,
		// unless something is there already.
		{
			Destination: "/run/secrets", Type: "tmpfs", Source: "tmpfs",
			Options: []string{"ro", "noexec", "nosuid", "nodev", "notmpcopyup", "size=4096", "mode=0555"},
		},
	}
}

// tmpfs belongs to the box's user. Podman would fill it with the image's files. It refuses the
// options uid and gid, and passes on the value of size as it is: so they travel in there.
func tmpfs(folder string, size int64, mode int) specs.Mount {
	return specs.Mount{Destination: folder, Type: "tmpfs", Source: "tmpfs", Options: []string{
		"rw", "exec", "nosuid", "nodev", "notmpcopyup", fmt.Sprintf("mode=%04o", mode),
		fmt.Sprintf("size=%d,uid=%d,gid=%d", size, core.GuestUID, core.GuestGID),
	}}
}

// planMounts mounts the agent and the spec's volumes. A volume on one of the writable folders
// takes its place. An image's VOLUMEs stay folders of its read-only root: the engine would make
// volumes for them, which no limit bounds.
func planMounts(s *specgen.SpecGenerator, spec core.BoxSpec, o order) {
	s.ImageVolumeMode = "ignore"
	s.Volumes = []*specgen.NamedVolume{volumeMount(o.From.agent.Name, core.GuestBin, true, o.Facts)}
	for _, m := range spec.Mounts {
		s.Mounts = without(s.Mounts, m.Path)
		s.Volumes = append(s.Volumes, volumeMount(m.Volume, m.Path, !m.Writable, o.Facts))
	}
}

// volumeMount keeps the image's files out of a volume. Where SELinux labels files, what one box
// wrote is labelled for it alone, and "z" lets the next one read it.
func volumeMount(volume, target string, readOnly bool, f facts) *specgen.NamedVolume {
	mode := "rw"
	if readOnly {
		mode = "ro"
	}
	options := []string{mode, "nocopy", "nosuid", "nodev"}
	if f.selinux {
		options = append(options, "z")
	}
	return &specgen.NamedVolume{Name: volume, Dest: target, Options: options}
}

func without(mounts []specs.Mount, target string) []specs.Mount {
	var rest []specs.Mount
	for _, m := range mounts {
		if m.Destination != target {
			rest = append(rest, m)
		}
	}
	return rest
}

// planNetwork gives no network, or one without a way to the host's loopback.
func planNetwork(s *specgen.SpecGenerator, n core.Network, f facts) {
	switch {
	case n != core.NetworkFull:
		s.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
		s.UseImageResolvConf = yes()
	case !f.rootless && f.userNet == "":
		s.NetNS = specgen.Namespace{NSMode: specgen.Bridge}
	case f.userNet == "pasta":
		s.NetNS = specgen.Namespace{NSMode: specgen.Pasta}
		s.NetworkOptions = map[string][]string{"pasta": {"--no-map-gw"}}
	default:
		s.NetNS = specgen.Namespace{NSMode: specgen.Slirp}
		s.NetworkOptions = map[string][]string{"slirp4netns": {"allow_host_loopback=false"}}
	}
}

// planHost keeps what is the host's out of the box: its environment, its proxies, its /etc/hosts,
// of which Podman would make a copy. The container's own layer need not survive the machine's crash.
func planHost(s *specgen.SpecGenerator, agentFolder string) {
	s.EnvHost = no()
	s.HTTPProxy = no()
	s.Passwd = no()
	s.Volatile = yes()
	s.UseImageHosts = yes()
	s.Mounts = append(s.Mounts, specs.Mount{
		Destination: "/etc/hosts", Type: "bind", Source: path.Join(agentFolder, hostsFile),
		Options: []string{"ro", "nosuid", "nodev", "noexec"},
	})
}

// planHelper is a container that is never started: the engine's archive API writes through it
// into the agent's volume, which is mounted at helperPath.
func planHelper(name string, from origin, labels core.Labels, f facts) *specgen.SpecGenerator {
	s := specgen.NewSpecGenerator(from.id, false)
	s.Name = name
	s.Labels = labels.Map()
	s.Entrypoint = []string{core.GuestAgent}
	s.LogConfiguration = &specgen.LogConfig{Driver: "none"}
	s.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	s.ImageVolumeMode = "ignore"
	s.Volumes = []*specgen.NamedVolume{volumeMount(from.agent.Name, helperPath, false, f)}
	s.Volatile = yes()
	return s
}

const helperPath = "/boxwright-volume"

func yes() *bool { b := true; return &b }

func no() *bool { return new(bool) }
