package fence

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ForkExec is syscall.ForkExec for a program that has all the processors of the box. What the filter cannot
// refuse is that code gives one of the agent's threads fewer, which a program that is started on that
// thread would have too.
func ForkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	if lower.jobs != nil {
		return lower.forkExec(path, argv, attr)
	}
	return forkExec(path, argv, attr)
}

func forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr) //nolint:gosec // what the caller asked for, inside the box
	if err == nil {
		_ = unix.SchedSetaffinity(pid, &processors)
	}
	return pid, err
}

// ForkExecExposed is ForkExec for a program that the kernel shall take first when memory runs out, with all
// that it starts. It has to be so from the beginning: a child that it starts before it has been marked is
// not taken until all others are, and the agent may be the next.
func ForkExecExposed(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	score.raise()
	defer score.restore()
	return ForkExec(path, argv, attr)
}

// lower starts programs with less priority than the agent's, once Yield has been called.
var lower launcher

// launcher is a thread that has given up priority. Its programs inherit that; a process without privileges
// cannot take it back, so no other thread may do it for a moment.
type launcher struct {
	jobs  chan func()
	begun chan struct{} // closed when a thread has taken the jobs
}

// yielding is the nice value of programs that give way: the agent is as good as always next, and beside
// programs of other people's they still get a tenth.
const yielding = 10

// Yield makes all that is started from now on give way to the agent, which must not wait for its turn
// behind a thousand processes to find out that there are a thousand. It is to be called once, before
// anything is started.
func Yield() {
	lower.jobs, lower.begun = make(chan func()), make(chan struct{})
	go lower.serve()
}

// serve does the jobs. The first thread is not taken, as the priority of the process is that thread's: while
// it is held here, another goroutine has another one.
func (l *launcher) serve() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		go l.serve()
		<-l.begun
		runtime.UnlockOSThread()
		return
	}
	close(l.begun)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, yielding)
	for job := range l.jobs {
		job()
	}
}

func (l *launcher) forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	done := make(chan struct{})
	l.jobs <- func() {
		defer close(done)
		pid, err = forkExec(path, argv, attr)
	}
	<-done
	return pid, err
}

// processors are those that the box began with; none until the fence is up.
var processors unix.CPUSet

// score is the agent's own place among what the kernel takes when memory runs out.
var score oomScore

// oomScore can be raised for a moment, so that what is started meanwhile has it. Even then the kernel takes
// what is bigger than the agent first.
type oomScore struct {
	mu   sync.Mutex
	file *os.File // nil where it cannot be written
	own  []byte
}

// open has to come before the process is undumpable, since the file is root's then.
func (s *oomScore) open() error {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		_ = file.Close()
		return err
	}
	s.file, s.own = file, bytes.TrimSpace(text)
	return nil
}

func (s *oomScore) raise() {
	s.mu.Lock()
	if s.file != nil {
		_, _ = s.file.WriteAt([]byte("1000"), 0)
	}
}

func (s *oomScore) restore() {
	if s.file != nil {
		_, _ = s.file.WriteAt(s.own, 0)
	}
	s.mu.Unlock()
}
