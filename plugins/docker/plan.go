package docker

import (
	"fmt"
	"math"
	"path"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/strslice"

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
	Name    string   // of the container
	Image   string   // the id of the image's content
	Volumes []string // the folders that the image declares as VOLUMEs
	Agent   string   // the volume that holds the agent
	Server  string
	Runtime string                          // "" is the engine's default
	Sandbox bool                            // that runtime runs a kernel of its own for each box
	Limits  map[core.Limit]core.Enforcement // what the engine makes hold
	MaxCPUs float64                         // of the engine; more is refused by it and would bound nothing
}

// request is the engine's form of a box.
type request struct {
	Name   string
	Config *container.Config
	Host   *container.HostConfig
	Net    *network.NetworkingConfig
}

// plan turns a spec into the engine's request. It does no I/O.
func plan(spec core.BoxSpec, o order) request {
	r := request{
		Name:   o.Name,
		Config: &container.Config{},
		Host:   &container.HostConfig{Runtime: o.Runtime},
		Net:    &network.NetworkingConfig{},
	}
	planProcess(&r, spec, o)
	planLimits(&r, spec.Limits, o)
	planSecurity(&r)
	planFiles(&r, spec.Limits.DiskBytes)
	planMounts(&r, spec, o)
	coverVolumes(&r, o.Volumes)
	planNetwork(&r, spec.Network)
	r.Config.Labels = spec.Labels.Map()
	r.Config.Labels[daemon.LabelImage] = spec.Image
	return r
}

// planProcess makes the agent the box's PID 1, whatever the image says. Its standard input and output are
// a first stream to it; they are kept out of the engine's logs, and so is what it says: they would fill the
// host's disk.
func planProcess(r *request, spec core.BoxSpec, o order) {
	r.Config.Image = o.Image
	r.Config.Entrypoint = strslice.StrSlice{core.GuestAgent}
	r.Config.Cmd = spec.AgentArgs(daemon.AgentLimits(o.Limits, o.Sandbox))
	if !o.Sandbox {
		r.Config.Cmd = append(r.Config.Cmd, "--stream-stdio")
		r.Config.OpenStdin = true
	}
	r.Config.User = fmt.Sprintf("%d:%d", core.GuestUID, core.GuestGID)
	r.Config.WorkingDir = core.GuestWork
	r.Config.Hostname = "box"
	r.Config.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	r.Host.LogConfig = container.LogConfig{Type: "none"}
	r.Host.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyDisabled}
}

// planLimits makes memory the sum of memory and swap, so that nothing is swapped out.
func planLimits(r *request, l core.Limits, o order) {
	if o.Sandbox {
		l = daemon.Widen(l)
	}
	cpus := l.CPUs
	if o.MaxCPUs > 0 {
		cpus = math.Min(cpus, o.MaxCPUs)
	}
	pids := l.PIDs
	r.Host.Memory = l.MemoryBytes
	r.Host.MemorySwap = l.MemoryBytes
	r.Host.NanoCPUs = int64(cpus * 1e9)
	r.Host.PidsLimit = &pids
}

// planSecurity takes away what the engine gives by default. The engine's own seccomp and
// AppArmor profiles stay.
func planSecurity(r *request) {
	init := false
	r.Host.CapDrop = strslice.StrSlice{"ALL"}
	r.Host.SecurityOpt = []string{"no-new-privileges"}
	r.Host.ReadonlyRootfs = true
	r.Host.Init = &init
	r.Host.IpcMode = container.IPCModePrivate
}

// planFiles makes the writable folders: in memory, bounded, gone with the box.
func planFiles(r *request, disk int64) {
	user := fmt.Sprintf("uid=%d,gid=%d", core.GuestUID, core.GuestGID)
	r.Host.ShmSize = shmBytes
	r.Host.Tmpfs = map[string]string{
		core.GuestWork: fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=0755,%s", disk, user),
		core.GuestHome: fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=0755,%s", homeBytes, user),
		core.GuestTmp:  fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=1777", disk/2),
	}
}

// planMounts mounts the agent and the spec's volumes. A volume on one of the writable folders
// takes its place. NoCopy keeps the image's files out of a volume.
func planMounts(r *request, spec core.BoxSpec, o order) {
	agent := core.Labels{Instance: spec.Labels.Instance, Server: o.Server, Purpose: core.PurposeAgent}
	r.Host.Mounts = append(r.Host.Mounts, volumeMount(o.Agent, core.GuestBin, true, agent))
	for _, m := range spec.Mounts {
		delete(r.Host.Tmpfs, path.Clean(m.Path))
		r.Host.Mounts = append(r.Host.Mounts, volumeMount(m.Volume, m.Path, !m.Writable, spec.Labels))
	}
}

// volumeMount gives labels too: the engine makes a volume that has vanished meanwhile, and it
// must not be left unlabelled.
func volumeMount(volume, target string, readOnly bool, labels core.Labels) mount.Mount {
	return mount.Mount{
		Type:          mount.TypeVolume,
		Source:        volume,
		Target:        target,
		ReadOnly:      readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: labels.Map()},
	}
}

// coverBytes is the size of a cover. Nothing is written to it, but 0 would be no bound.
const coverBytes = 4 << 10

// coverVolumes puts an empty read-only folder over each VOLUME of the image. The engine would
// make a volume for it, which no limit bounds: it lies on the disk of the engine's machine. What
// the image has there is not seen. A folder that is mounted anyway needs no cover.
func coverVolumes(r *request, folders []string) {
	for _, folder := range folders {
		mounted := func(m mount.Mount) bool { return m.Target == folder }
		if _, ours := r.Host.Tmpfs[folder]; ours || slices.ContainsFunc(r.Host.Mounts, mounted) {
			continue
		}
		r.Host.Mounts = append(r.Host.Mounts, mount.Mount{
			Type:         mount.TypeTmpfs,
			Target:       folder,
			ReadOnly:     true,
			TmpfsOptions: &mount.TmpfsOptions{SizeBytes: coverBytes, Mode: 0o555},
		})
	}
}

func planNetwork(r *request, n core.Network) {
	r.Host.NetworkMode = "none"
	if n == core.NetworkFull {
		r.Host.NetworkMode = "bridge"
	}
}

// planHelper is a container that is never started: the engine's archive API writes through it
// into the volumes that are mounted below helperRoot.
func planHelper(name string, from origin, labels core.Labels, volumes []string) request {
	r := request{
		Name: name,
		Config: &container.Config{
			Image:      from.id,
			Entrypoint: strslice.StrSlice{core.GuestAgent},
			Labels:     labels.Map(),
		},
		Host: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}},
		Net:  &network.NetworkingConfig{},
	}
	for i, v := range volumes {
		r.Host.Mounts = append(r.Host.Mounts, volumeMount(v, helperPath(i), false, labels))
	}
	coverVolumes(&r, from.volumes)
	return r
}

const helperRoot = "/boxwright-volumes"

func helperPath(i int) string { return path.Join(helperRoot, fmt.Sprint(i)) }
