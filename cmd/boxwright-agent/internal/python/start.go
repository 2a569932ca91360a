package python

import (
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fence"
	"github.com/boxwright/boxwright/core"
)

// start needs the lock.
func (w *Warm) start() error {
	if w.now != nil && w.now.alive() {
		return nil
	}
	w.stop()
	if w.config.Path == "" {
		return core.Errorf(core.ErrUnsupported, "the image has no Python interpreter").
			WithHint("use an image that has python3, such as python:3.11-slim")
	}
	n, err := w.begin()
	if err != nil {
		return err
	}
	n.calm = make(chan struct{})
	w.now = n
	go w.settle(n)
	return nil
}

// begin starts an interpreter, or has one copied, that takes requests.
func (w *Warm) begin() (*waiting, error) {
	if w.base != nil {
		return w.base.branch()
	}
	n, err := w.spawn()
	if err != nil {
		return nil, core.Errorf(core.ErrExhausted, "the image's Python could not be started: %w", err)
	}
	_ = n.conn.SetDeadline(time.Now().Add(startTime))
	hello, err := n.receive()
	if err != nil || !strings.HasPrefix(hello, "ready ") {
		last := n.lastWords()
		n.end()
		_, _ = n.log.Close(), n.loaded.Close()
		return nil, core.Errorf(core.ErrUnsupported, "the image's Python at %s does not work: %s", w.config.Path, last).
			WithHint("Python 3.8 or newer is needed")
	}
	_ = n.log.Close()
	return n, nil
}

// branch has the interpreter make a copy that takes requests itself and loads more.
func (w *Warm) branch() (*waiting, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.tryBranch()
	if core.KindOf(err) == core.ErrUnavailable { // the interpreter is dead or stopped; nobody noticed
		w.stop()
		n, err = w.tryBranch()
	}
	return n, err
}

func (w *Warm) tryBranch() (*waiting, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, core.Errorf(core.ErrExhausted, "no socket for the interpreter: %w", err)
	}
	defer theirs.Close() //nolint:errcheck // the copy has its own
	loaded, theirEnd, err := os.Pipe()
	if err != nil {
		_ = ours.Close()
		return nil, core.Errorf(core.ErrExhausted, "no pipe for the interpreter: %w", err)
	}
	defer theirEnd.Close() //nolint:errcheck // the copy has its own
	mark := w.reaper.Mark()
	pid, err := w.now.fork("base", theirs, theirEnd)
	if err != nil {
		_, _ = ours.Close(), loaded.Close()
		return nil, err
	}
	return &waiting{process: process{pid: pid, conn: ours, died: w.reaper.Wait(pid, mark)}, loaded: loaded}, nil
}

// settle has a copy made once the interpreter has loaded what programs are to find loaded. A program that
// comes sooner gets one that has less.
func (w *Warm) settle(n *waiting) {
	defer n.loaded.Close()                //nolint:errcheck // it was only read
	_, _ = n.loaded.Read(make([]byte, 1)) // its end says so, or that the interpreter is gone
	w.mu.Lock()
	defer w.mu.Unlock()
	n.settled = true
	close(n.calm)
	if w.now == n && n.alive() && (w.ready == nil || !w.ready.alive()) {
		w.drop()
		_ = w.copy() // or the next run makes one, and reports what is wrong
	}
}

// stop needs the lock.
func (w *Warm) stop() {
	w.drop()
	if w.now != nil {
		w.now.end()
		w.now = nil
	}
}

// drop gives the copy up; it needs the lock.
func (w *Warm) drop() {
	if w.ready != nil {
		w.ready.end()
		w.ready = nil
	}
}

func (n *waiting) lastWords() string {
	text := make([]byte, 4096)
	size, _ := n.log.ReadAt(text, 0)
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text[:size]), "?")), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return "it ended without a word"
}

// spawn starts the interpreter with its instructions as descriptors 3 and 4, its socket as 5, and as 6 the
// pipe that it closes once everything is loaded.
func (w *Warm) spawn() (*waiting, error) {
	files, err := openFiles()
	if err != nil {
		return nil, err
	}
	defer files.close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() //nolint:errcheck // the interpreter has a copy
	loaded, theirEnd, err := os.Pipe()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	defer theirEnd.Close() //nolint:errcheck // the interpreter has a copy
	log, err := memory(nil)
	if err != nil {
		_, _ = ours.Close(), loaded.Close()
		return nil, err
	}
	mark := w.reaper.Mark()
	argv := append([]string{w.config.Path, "-s", "/proc/self/fd/3"}, w.config.Preload...)
	pid, err := fence.ForkExec(w.config.Path, argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append([]string{"PYTHONUTF8=1"}, w.config.Env...),
		Files: []uintptr{files[0].Fd(), files[0].Fd(), log.Fd(), files[1].Fd(), files[2].Fd(), theirs.Fd(), theirEnd.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _, _ = ours.Close(), loaded.Close(), log.Close()
		return nil, err
	}
	return &waiting{process: process{pid: pid, conn: ours, died: w.reaper.Wait(pid, mark)}, log: log, loaded: loaded}, nil
}

type fileList []*os.File

func (l fileList) close() {
	for _, file := range l {
		_ = file.Close()
	}
}

// openFiles opens the null device, the stub and the runner.
func openFiles() (fileList, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	list := fileList{null}
	for _, text := range [][]byte{stub, source} {
		file, err := memory(text)
		if err != nil {
			list.close()
			return nil, err
		}
		list = append(list, file)
	}
	return list, nil
}

// socketPair keeps the borders of messages, so that an answer is never half of one.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	file := os.NewFile(uintptr(fds[0]), "control")
	defer file.Close() //nolint:errcheck // FileConn has a copy
	conn, err := net.FileConn(file)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil //nolint:errcheck,forcetypeassert // it is a unix socket
}
