// Package sweep ends what a run leaves behind: background children, detached sessions, stopped trees,
// fork bombs.
//
// It kills everything in the box but the agent, and tells beforehand whether that is needed at all. It
// must only ever run in a process that is the first of a pid namespace, and refuses anything else.
package sweep

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// patience bounds how long killed processes may take to be gone.
const patience = 5 * time.Second

// Sweeper ends processes.
type Sweeper struct {
	uid int
}

// New returns a sweeper for the box whose first process is the caller.
func New() (*Sweeper, error) {
	if err := inBox(os.Getpid()); err != nil {
		return nil, err
	}
	return &Sweeper{uid: os.Getuid()}, nil
}

// inBox refuses a process that is not the first of a pid namespace: everything that it may kill there is more than
// a box. What kills asks again, as a Sweeper can be had without New.
func inBox(pid int) error {
	if pid == 1 {
		return nil
	}
	return core.Errorf(core.ErrUnsupported, "the agent is not the first process of a box").
		WithHint("start the box without an init process of the engine's, and with a pid namespace of its own")
}

// Others returns how many processes of the box's user live besides the agent and spare, and whether
// that is certain: it is not if a process vanished meanwhile, since that one may have left a child that
// was not seen. A spared process that is stopped counts, because it is of no use any more.
func (s *Sweeper) Others(spare ...int) (count int, certain bool) {
	pids, err := list()
	if err != nil {
		return 0, false
	}
	certain = true
	for _, pid := range pids {
		p, err := read(pid)
		switch {
		case err != nil:
			certain = false
		case p.dead || p.uid != s.uid:
		case p.stopped || !slices.Contains(spare, pid):
			count++
		}
	}
	return count, certain
}

// Living are the processes of one moment. A number alone is not enough: they are used again.
type Living map[identity]bool

type identity struct {
	pid   int
	start string // since the start of the machine, as the kernel says it
}

// Living returns the processes of the box's user.
func (s *Sweeper) Living() Living {
	pids, _ := list()
	living := Living{}
	for _, pid := range pids {
		if p, err := read(pid); err == nil && p.uid == s.uid && !p.dead {
			living[identify(pid)] = true
		}
	}
	return living
}

// huntTime bounds the hunt for what may be quicker than the hunter.
const huntTime = 2 * time.Second

// Hunt kills every process of the box's user's that has come since before, except spare, and returns when none is
// left. It is an error if there are always new ones.
func (s *Sweeper) Hunt(before Living, spare ...int) error {
	if err := inBox(os.Getpid()); err != nil {
		return err
	}
	deadline := time.Now().Add(huntTime)
	pause := 200 * time.Microsecond
	for {
		if left, certain := s.killNew(before, spare); left == 0 && certain {
			return nil
		}
		if time.Now().After(deadline) {
			return core.Errorf(core.ErrInternal, "some processes could not be ended")
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

func (s *Sweeper) killNew(before Living, spare []int) (left int, certain bool) {
	pids, err := list()
	if err != nil {
		return 0, false
	}
	certain = true
	for _, pid := range pids {
		p, err := read(pid)
		switch {
		case err != nil:
			certain = false
		case p.dead || p.uid != s.uid || slices.Contains(spare, pid) || before[identify(pid)]:
		default:
			left++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return left, certain
}

// identify reads the start, the 22nd field; the second one, in brackets, may hold anything.
func identify(pid int) identity {
	const fromThird = 22 - 3
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= fromThird {
		return identity{pid: pid}
	}
	return identity{pid, string(fields[fromThird])}
}

// KillAll kills every process of the box's user except the agent and returns when they are gone. A
// single kill(-1) cannot be outrun: the kernel refuses a fork to whoever has a signal pending. Processes
// of other users, which carry the host's stream, are out of its reach.
func (s *Sweeper) KillAll() error {
	if err := inBox(os.Getpid()); err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	pause := 200 * time.Microsecond
	for {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		if count, certain := s.Others(); count == 0 && certain {
			return nil
		}
		if time.Now().After(deadline) {
			return core.Errorf(core.ErrInternal, "some processes could not be ended")
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// list returns the box's processes, without the agent.
func list() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

type process struct {
	uid           int
	dead, stopped bool
}

// read looks into status and not at the owner of the folder, which is root for a process that made
// itself undumpable.
func read(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return process{}, err
	}
	p := process{uid: -1}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch string(fields[0]) {
		case "State:":
			p.dead = bytes.ContainsAny(fields[1], "ZXx")
			p.stopped = bytes.ContainsAny(fields[1], "Tt")
		case "Uid:":
			p.uid, err = strconv.Atoi(string(fields[1]))
			return p, err
		}
	}
	return p, nil
}
