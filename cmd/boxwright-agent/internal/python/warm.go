package python

import (
	_ "embed" // the interpreter's instructions
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
	"github.com/boxwright/boxwright/core"
)

// FlushSignal makes a program of this package's write out what it has printed.
const FlushSignal = syscall.Signal(60)

// Flush has the program with that process write out what it has printed.
func Flush(pid int) { tell(pid, FlushSignal) }

// tell sends a signal to a process's first thread, in which Python acts on signals. One that is sent to the
// process goes to another thread while the first has one pending, and does not end what the first waits for.
func tell(pid int, signal syscall.Signal) { _ = unix.Tgkill(pid, pid, signal) }

const (
	startTime  = 60 * time.Second // preloads on a slow machine
	answerTime = 10 * time.Second // to a request, by an interpreter that waits
)

//go:embed stub.py
var stub []byte

//go:embed runner.py
var source []byte

// Config is what does not change while the agent runs.
type Config struct {
	Path    string   // of the interpreter
	Env     []string // of the waiting interpreter; programs get their own
	Preload []string // modules that programs of Loaded find loaded; a missing one is left out
}

// Warm is an interpreter that waits, and a copy of it that is ready to become a program. Both are made
// when they are first needed, and again after they were killed.
type Warm struct {
	config Config
	reaper *reaper.Reaper
	base   *Warm // whose interpreter this one's is a copy of; nil if it is started by itself

	mu    sync.Mutex
	now   *waiting // nil when there is none
	ready *ready   // the copy; nil when there is none
}

// waiting is the interpreter that copies are made of.
type waiting struct {
	process
	log     *os.File      // its stderr, until it is ready; nil for a copy
	loaded  *os.File      // ends once everything is loaded
	settled bool          // it has; needs the lock
	calm    chan struct{} // closed then
}

// ready is a copy.
type ready struct{ process }

// process is one of the two, and the agent's end of its socket.
type process struct {
	pid  int
	conn *net.UnixConn
	died <-chan syscall.WaitStatus
	dead bool
}

// Program is one run.
type Program struct {
	File       string            `json:"file"` // where the source can be read by the program
	Dir        string            `json:"dir"`
	Work       string            `json:"work"` // where figures go
	Env        map[string]string `json:"env"`
	PythonPath []string          `json:"python_path"`
	Flush      int               `json:"flush_signal"`
	Source     []byte            `json:"-"`
	Stdio      [3]int            `json:"-"` // descriptors; they stay the caller's
}

// Process is a program that has been started.
type Process struct {
	PID    int
	Status <-chan syscall.WaitStatus
}

// New returns one that is not started yet.
func New(config Config, r *reaper.Reaper) *Warm { return &Warm{config: config, reaper: r} }

// Loaded returns one whose interpreter is a copy of this one's that has the preloads besides: the two share what
// they have in memory.
func (w *Warm) Loaded() *Warm { return &Warm{config: w.config, reaper: w.reaper, base: w} }

// PIDs returns the processes that wait.
func (w *Warm) PIDs() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pids []int
	if w.now != nil && w.now.alive() {
		pids = append(pids, w.now.pid)
	}
	if w.ready != nil && w.ready.alive() {
		pids = append(pids, w.ready.pid)
	}
	return pids
}

// Start makes the interpreter wait, and a copy once it has loaded everything, unless they do.
func (w *Warm) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.start(); err != nil || !w.now.settled {
		return err
	}
	return w.prime()
}

// Settle is Start, and returns once what is loaded beforehand is loaded.
func (w *Warm) Settle() error {
	if err := w.Start(); err != nil {
		return err
	}
	w.mu.Lock()
	now := w.now
	w.mu.Unlock()
	if now != nil {
		<-now.calm
	}
	return nil
}

// Stop ends what waits, also if somebody else has killed it before.
func (w *Warm) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
}

// Launch starts a program.
func (w *Warm) Launch(p Program) (Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	request, err := p.request()
	if err != nil {
		return Process{}, err
	}
	defer request.Close() //nolint:errcheck // memory
	ready, err := w.send("run", p.Stdio[0], p.Stdio[1], p.Stdio[2], int(request.Fd()))
	if err != nil {
		return Process{}, err
	}
	_ = ready.conn.Close() // it has served
	return Process{PID: ready.pid, Status: ready.died}, nil
}

// send tells a copy what it is to become, and gives it away; it needs the lock.
func (w *Warm) send(what string, descriptors ...int) (*ready, error) {
	if err := w.prime(); err != nil {
		return nil, err
	}
	ready := w.ready
	w.ready = nil
	_ = ready.conn.SetDeadline(time.Now().Add(answerTime))
	if _, _, err := ready.conn.WriteMsgUnix([]byte(what), unix.UnixRights(descriptors...), nil); err != nil {
		ready.end()
		return nil, core.Errorf(core.ErrUnavailable, "the waiting interpreter is gone: %w", err).WithHint("try again")
	}
	_ = ready.conn.SetDeadline(time.Time{})
	return ready, nil
}

// prime needs the lock.
func (w *Warm) prime() error {
	if w.ready != nil && w.ready.alive() {
		return nil
	}
	w.drop()
	if err := w.start(); err != nil {
		return err
	}
	err := w.copy()
	if core.KindOf(err) == core.ErrUnavailable { // the interpreter is dead or stopped; nobody noticed
		w.stop()
		if err = w.start(); err == nil {
			err = w.copy()
		}
	}
	return err
}

// copy has the interpreter make a copy. core.ErrUnavailable means that it does not answer.
func (w *Warm) copy() error {
	ours, theirs, err := socketPair()
	if err != nil {
		return core.Errorf(core.ErrExhausted, "no socket for the interpreter: %w", err)
	}
	defer theirs.Close() //nolint:errcheck // the copy has its own
	mark := w.reaper.Mark()
	pid, err := w.now.fork("fork", theirs)
	if err != nil {
		_ = ours.Close()
		return err
	}
	w.ready = &ready{process{pid: pid, conn: ours, died: w.reaper.Wait(pid, mark)}}
	return nil
}

// fork asks for a copy that has the socket, and what else is given.
func (n *waiting) fork(what string, files ...*os.File) (int, error) {
	gone := func(err error) error {
		return core.Errorf(core.ErrUnavailable, "the waiting interpreter is gone: %w", err).WithHint("try again")
	}
	_ = n.conn.SetDeadline(time.Now().Add(answerTime))
	var descriptors []int
	for _, file := range files {
		descriptors = append(descriptors, int(file.Fd()))
	}
	if _, _, err := n.conn.WriteMsgUnix([]byte(what), unix.UnixRights(descriptors...), nil); err != nil {
		return 0, gone(err)
	}
	answer, err := n.receive()
	if err != nil {
		return 0, gone(err)
	}
	kind, text, _ := strings.Cut(answer, " ")
	if kind == "error" {
		return 0, core.Errorf(core.ErrExhausted, "no process could be started for the code: %s", text).
			WithHint("the box's limit of processes or memory is used up")
	}
	pid, err := strconv.Atoi(text)
	if kind != "pid" || err != nil || pid <= 1 || pid == n.pid {
		return 0, gone(fmt.Errorf("it answered %q", answer))
	}
	return pid, nil
}

func (p *process) receive() (string, error) {
	buffer := make([]byte, 512)
	size, err := p.conn.Read(buffer)
	return string(buffer[:size]), err
}

// alive notices also that somebody else has killed the process.
func (p *process) alive() bool {
	select {
	case <-p.died:
		p.dead = true
	default:
	}
	return !p.dead
}

func (p *process) end() {
	if p.alive() {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	_ = p.conn.Close()
}

func (p Program) request() (*os.File, error) {
	p.Flush = int(FlushSignal)
	if p.PythonPath == nil {
		p.PythonPath = []string{}
	}
	return written(p, p.Source)
}

func memory(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("boxwright", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, core.Errorf(core.ErrExhausted, "no memory for the code: %w", err)
	}
	file := os.NewFile(uintptr(fd), "boxwright")
	if _, err := file.WriteAt(data, 0); err != nil {
		_ = file.Close()
		return nil, core.Errorf(core.ErrExhausted, "no memory for the code: %w", err)
	}
	return file, nil
}
