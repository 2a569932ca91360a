package runner

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/capture"
	"github.com/boxwright/boxwright/core"
)

const (
	pipeSize  = 256 << 10
	chunkSize = 64 << 10
	// smallPiece is what is not worth a wake-up; gatherTime is far shorter than the pipe takes to fill.
	smallPiece = 16 << 10
	gatherTime = 2 * time.Millisecond
	// drainTime bounds the reading of what is in the pipes once all writers are dead.
	drainTime = 2 * time.Second
)

// stdio are the three streams of one run, seen from the agent.
type stdio struct {
	child  [3]int // the program's ends; -1 once closed
	input  *os.File
	output [2]*os.File
	done   [2]chan struct{}
	ends   [2]bool       // the output has come to its end; to be read once done is closed
	ending chan struct{} // closed once all writers are dead: nothing more can gather
}

// newStdio opens them; open says that there is a stdin, whatever is in it.
func newStdio(open bool) (*stdio, error) {
	s := &stdio{child: [3]int{-1, -1, -1}, ending: make(chan struct{})}
	if err := s.open(open); err != nil {
		s.close()
		return nil, core.Errorf(core.ErrExhausted, "no pipes for the program: %w", err)
	}
	return s, nil
}

func (s *stdio) open(input bool) (err error) {
	if !input {
		s.child[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	} else {
		s.child[0], s.input, err = pipe(false)
	}
	for i := range s.output {
		if err == nil {
			s.child[i+1], s.output[i], err = pipe(true)
		}
	}
	return err
}

// pipe returns the program's end as a plain descriptor, which blocks as programs expect, and the
// agent's, which does not.
func pipe(weRead bool) (theirs int, ours *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	theirs, mine := ends[0], ends[1]
	if weRead {
		theirs, mine = mine, theirs
	}
	_, _ = unix.FcntlInt(uintptr(mine), unix.F_SETPIPE_SZ, pipeSize) // a wish: users have a quota of pipe memory
	err = unix.SetNonblock(mine, true)
	return theirs, os.NewFile(uintptr(mine), "pipe"), err
}

// start begins to feed and to read. A program that ends without reading its stdin is no error.
func (s *stdio) start(run *Run) {
	s.closeChild()
	switch {
	case run.input != nil:
		run.input.open(s.input, run.spec.Stdin)
	case s.input != nil:
		go func() {
			_, _ = s.input.Write(run.spec.Stdin)
			_ = s.input.Close()
		}()
	}
	for i, file := range s.output {
		s.done[i] = make(chan struct{})
		go func() {
			defer close(s.done[i])
			s.ends[i] = s.read(file, run.captures[i])
		}()
	}
}

// read copies an output to its end, or to its present end once release sets a deadline; it returns whether it
// has come to the end. A program that prints line by line would wake the agent for
// each, on the processor time of its own box: after a small piece the next ones may gather.
func (s *stdio) read(file *os.File, capture *capture.Capture) (end bool) {
	chunk := make([]byte, chunkSize)
	for {
		n, err := file.Read(chunk)
		_, _ = capture.Write(chunk[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return readPresent(file, capture, chunk)
		}
		if err != nil {
			return true
		}
		if n < smallPiece {
			select {
			case <-time.After(gatherTime):
			case <-s.ending:
			}
		}
	}
}

// release reads what is in the pipes, and then goes on reading without keeping anything, so that who is left
// at the other ends can go on writing. left says that there is somebody.
func (s *stdio) release() (left bool) {
	close(s.ending)
	s.closeInput()
	for i, file := range s.output {
		_ = file.SetReadDeadline(time.Now())
		<-s.done[i]
		if s.ends[i] {
			_ = file.Close()
			continue
		}
		left = true
		_ = file.SetReadDeadline(time.Time{})
		go func() { _, _ = io.Copy(io.Discard, file) }()
	}
	return left
}

// drain waits for the end of both outputs, which comes once no process holds them.
func (s *stdio) drain() {
	close(s.ending)
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for _, done := range s.done {
		select {
		case <-done:
		case <-limit.C:
			s.close()
			return
		}
	}
	s.close()
}

func (s *stdio) closeChild() {
	for i, fd := range s.child {
		if fd >= 0 {
			_ = unix.Close(fd)
			s.child[i] = -1
		}
	}
}

func (s *stdio) close() {
	s.closeChild()
	s.closeInput()
	for _, file := range s.output {
		if file != nil {
			_ = file.Close()
		}
	}
}

func (s *stdio) closeInput() {
	if s.input != nil {
		_ = s.input.Close()
	}
}

// presentMost bounds what is read of a pipe at a program's end: it is full, and somebody fills it again and again.
const presentMost = 4 * pipeSize

// readPresent copies what is in a pipe; end says that nobody writes into it any more.
func readPresent(file *os.File, capture *capture.Capture, chunk []byte) (end bool) {
	raw, err := file.SyscallConn()
	if err != nil {
		return true
	}
	_ = file.SetReadDeadline(time.Time{})
	for total := 0; total < presentMost; {
		n, readErr := 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			n, readErr = unix.Read(int(fd), chunk)
			return true
		})
		switch {
		case errors.Is(readErr, unix.EINTR):
			continue
		case errors.Is(readErr, unix.EAGAIN):
			return false
		case err != nil || readErr != nil || n == 0:
			return true
		}
		_, _ = capture.Write(chunk[:n])
		total += n
	}
	return false
}
