package core

import (
	"time"
)

// Paths inside every box. They are a promise to programs and to backends.
const (
	// GuestBin is where a backend puts the agent; read-only.
	GuestBin = "/opt/boxwright/bin"
	// GuestAgent is the agent's executable: the box's PID 1.
	GuestAgent = GuestBin + "/boxwright-agent"
	// GuestEnvironment is where an installer puts packages; only installer boxes, and the one that keeps what
	// they installed, have it.
	GuestEnvironment = "/opt/boxwright/env"
	// GuestEnvironments is where every box that runs code has the installed packages of its trust zone,
	// read-only.
	GuestEnvironments = "/opt/boxwright/envs"
	// ZoneFolder is the one folder in there. In it is one for each environment: a program enters what it knows the
	// name of, and lists nothing. The box's user owns it, with ZoneMode.
	ZoneFolder = "by-name"
	// ZoneMode is the mode of ZoneFolder.
	ZoneMode = 0o300
	// GuestCache is the installer's download cache; only installer boxes have it.
	GuestCache = "/opt/boxwright/cache"
	// GuestWork is the workspace: the working directory, and the only place from which files are collected.
	GuestWork = "/work"
	// GuestHome is HOME: writable, never collected.
	GuestHome = "/home/box"
	// GuestTmp is the temporary folder.
	GuestTmp = "/tmp"
)

// The users of a box. The two differ so that the code can neither signal the process that
// carries the host's stream nor connect to the agent in its place.
const (
	// GuestUID runs the agent and all code.
	GuestUID = 1000
	// GuestGID is its group.
	GuestGID = 1000
	// DialUID runs "boxwright-agent dial" on engines whose exec can choose a user.
	DialUID = 65532
	// DialGID is its group.
	DialGID = 65532
)

// Network says what a box can reach. The zero value is nothing.
type Network string

// The networks of a box.
const (
	NetworkNone Network = ""     // no interface but loopback
	NetworkFull Network = "full" // whatever the engine's default network reaches
)

// Limits bound one box. A zero field takes the default of DefaultLimits.
type Limits struct {
	MemoryBytes int64   // memory and swap together, bytes
	CPUs        float64 // processors' worth of time; 0.5 is half a processor
	PIDs        int64   // processes and threads
	DiskBytes   int64   // the workspace; the temporary folder gets half as much
}

// Limit names one limit where a backend tells how it is enforced.
type Limit string

// The limits that a backend reports on.
const (
	LimitMemory  Limit = "memory"
	LimitCPU     Limit = "cpu"
	LimitPIDs    Limit = "pids"
	LimitDisk    Limit = "disk"
	LimitNetwork Limit = "network"
)

// AllLimits lists them.
func AllLimits() []Limit {
	return []Limit{LimitMemory, LimitCPU, LimitPIDs, LimitDisk, LimitNetwork}
}

// Enforcement tells what makes a limit hold.
type Enforcement string

// The ways in which a limit holds.
const (
	EnforcedNot     Enforcement = "none"    // it does not
	EnforcedCgroup  Enforcement = "cgroup"  // the kernel's control groups
	EnforcedRlimit  Enforcement = "rlimit"  // the agent's resource limits
	EnforcedSandbox Enforcement = "sandbox" // the engine: namespaces, tmpfs sizes, a user-space kernel
)

// Unenforced decides what happens to a limit that the backend cannot make hold.
type Unenforced string

// The policies for a limit that does not hold. The zero value refuses.
const (
	UnenforcedRefuse Unenforced = ""
	UnenforcedWarn   Unenforced = "warn"
)

// Purpose says why a box or volume exists.
type Purpose string

// The purposes.
const (
	PurposeRun         Purpose = "run"         // one run, then gone
	PurposeInstall     Purpose = "install"     // installs an environment, then gone
	PurposeSession     Purpose = "session"     // lives between calls and across restarts
	PurposeAgent       Purpose = "agent"       // volume: the agent's executable
	PurposeCompile     Purpose = "compile"     // compiles the bytecode of an environment, then gone
	PurposeKeep        Purpose = "keep"        // puts what was installed into its zone, or removes it there, then gone
	PurposeEnvironment Purpose = "environment" // volume: what is being installed
	PurposeZone        Purpose = "zone"        // volume: the installed environments of one trust zone
	PurposeCache       Purpose = "cache"       // volume: the installer's downloads
)

// Mount puts a volume into a box.
type Mount struct {
	Volume   string // the volume's name
	Path     string // absolute, inside the box
	Writable bool   // then it is writable by the box's user
}

// BoxSpec is what a backend needs to make a box.
type BoxSpec struct {
	Image      string // as given to EnsureImage; with a Digest, only a name for messages
	Digest     string // sha256:…; when set, the box is made from exactly this content, whatever Image names by now
	Limits     Limits
	Network    Network
	Mounts     []Mount
	Labels     Labels
	Unenforced Unenforced
	// Preload names Python modules that the box's interpreter imports while it waits for a program. One that
	// the image lacks is left out. A hint: a box without it is slower and otherwise the same.
	Preload []string
}

// BoxState is the life of a box as its engine sees it.
type BoxState string

// The states of a box.
const (
	BoxRunning BoxState = "running"
	BoxStopped BoxState = "stopped" // exists, but its agent is gone
)

// Box is one isolated process tree.
type Box struct {
	ID        string // the engine's id; unguessable
	Image     string
	Labels    Labels
	State     BoxState
	Created   time.Time
	OOMKilled bool     // the engine saw the kernel kill something in it for want of memory
	Warnings  []string // limits asked for that do not hold, one sentence each
}

// Volume is a named, labelled store of files that outlives boxes.
type Volume struct {
	Name    string // [a-z0-9][a-z0-9_.-]*, at most 128 bytes
	Labels  Labels
	Created time.Time // zero when only asked for
}

// Inventory is all that one installation has in an engine.
type Inventory struct {
	Boxes   []Box
	Volumes []Volume
}

// Image is an image that is present in the engine.
type Image struct {
	Ref      string // as asked for
	Digest   string // sha256:…, of the content: equal digests are equal images
	Platform string // os/arch[/variant]
}

// PullPolicy says when an image is fetched. The zero value fetches only a missing one.
type PullPolicy string

// The pull policies.
const (
	PullMissing PullPolicy = ""
	PullAlways  PullPolicy = "always"
	PullNever   PullPolicy = "never"
)

// Validate refuses what is none of them.
func (p PullPolicy) Validate() error {
	if p != PullMissing && p != PullAlways && p != PullNever {
		return Errorf(ErrInvalid, "%q is not a pull policy", string(p))
	}
	return nil
}

// Info is what a backend is and what it makes hold.
type Info struct {
	Name          string // the backend's name: "docker"
	Version       string // the backend's own
	Engine        string // "Docker Engine"
	EngineVersion string
	Platform      string // os/arch of the boxes
	Limits        map[Limit]Enforcement
	Warnings      []string // what an operator should know, one sentence each
	DefaultImage  string   // of runs for which nobody names one; "" leaves it to the server
}

// Progress is one step of something that takes time.
type Progress struct {
	Phase   Phase
	Message string // short, for a person
	Done    int64  // bytes or steps; 0 when unknown
	Total   int64  // 0 when unknown
}

// Phase is a part of a run that has a duration of its own.
type Phase string

// The phases, in order.
const (
	PhaseQueue        Phase = "queue"
	PhaseImage        Phase = "image"
	PhaseDependencies Phase = "dependencies"
	PhaseBox          Phase = "box"
	PhaseRun          Phase = "run"
	PhaseCollect      Phase = "collect"
)
