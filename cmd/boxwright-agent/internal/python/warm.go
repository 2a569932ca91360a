package python

import (
	_ "embed" // the interpreter's instructions
	"encoding/json"
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
	Preload []string // modules that programs find loaded; a missing one is left out
}

// Warm is an interpreter that waits. It is started when it is first needed, and again after it was
// killed.
type Warm struct {
	config Config
	reaper *reaper.Reaper

	mu  sync.Mutex
	now *waiting // nil when there is none
}

// waiting is one process.
type waiting struct {
	pid  int
	conn *net.UnixConn
	died <-chan syscall.WaitStatus
	dead bool
	log  *os.File // its stderr, until it is ready
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

// PID returns the waiting process, or 0.
func (w *Warm) PID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil || !w.now.alive() {
		return 0
	}
	return w.now.pid
}

// Start makes an interpreter wait, unless one does.
func (w *Warm) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.start()
}

// Stop ends the waiting interpreter, also if somebody else has killed it before.
func (w *Warm) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
}

// Launch starts a program. If the interpreter that waited turns out to be dead, another is started.
func (w *Warm) Launch(p Program) (Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.Flush = int(FlushSignal)
	if p.PythonPath == nil {
		p.PythonPath = []string{}
	}
	request, err := requestFile(p)
	if err != nil {
		return Process{}, err
	}
	defer request.Close() //nolint:errcheck // memory
	fds := []int{p.Stdio[0], p.Stdio[1], p.Stdio[2], int(request.Fd())}
	process, err := w.try(fds)
	if core.KindOf(err) == core.ErrUnavailable {
		w.stop()
		process, err = w.try(fds)
	}
	return process, err
}

func (w *Warm) try(fds []int) (Process, error) {
	if err := w.start(); err != nil {
		return Process{}, err
	}
	mark := w.reaper.Mark()
	pid, err := w.now.request(fds)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Status: w.reaper.Wait(pid, mark)}, nil
}

// request asks for a program. core.ErrUnavailable means that nobody answered.
func (n *waiting) request(fds []int) (int, error) {
	gone := func(err error) error {
		return core.Errorf(core.ErrUnavailable, "the waiting interpreter is gone: %w", err)
	}
	_ = n.conn.SetDeadline(time.Now().Add(answerTime))
	if _, _, err := n.conn.WriteMsgUnix([]byte("run"), unix.UnixRights(fds...), nil); err != nil {
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

func (n *waiting) receive() (string, error) {
	buffer := make([]byte, 512)
	size, err := n.conn.Read(buffer)
	return string(buffer[:size]), err
}

// requestFile holds a line of JSON and the source. A file of memory has no name that could be opened.
func requestFile(p Program) (*os.File, error) {
	header, err := json.Marshal(p)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the run cannot be described: %w", err)
	}
	return memory(append(append(header, '\n'), p.Source...))
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
