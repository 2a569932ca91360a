package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Dial implements execution.Backend: the stream that the box was started with, or, if that was taken,
// an exec of the agent's dial command, which is a pipe to the agent's socket.
func (b *Backend) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	r, err := b.ready(ctx)
	if err != nil {
		return nil, err
	}
	if _, _, err := b.readBox(box); errors.Is(err, fs.ErrNotExist) {
		return nil, noBox()
	} else if err != nil {
		return nil, fail(ctx, err, "the box could not be reached")
	}
	if stream, ok := b.first.Take(box); ok {
		return stream, nil // which has ended if the box has
	}
	if !running(b.processes())[box] {
		return nil, core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	s, err := b.attach(r, box)
	if err != nil {
		return nil, fail(ctx, err, "the box could not be reached")
	}
	return s, nil
}

// firstStreamFD is the descriptor with which runsc, and then the agent, get the box's first stream.
const firstStreamFD = 3

// stream is one exec of the agent's dial command.
type stream struct {
	cmd     *exec.Cmd
	in      *os.File
	out     *os.File
	said    *complaint
	once    sync.Once
	closed  chan struct{}
	waiting chan struct{} // closed when the command has ended
}

func (b *Backend) attach(r *runsc, box string) (*stream, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	s := &stream{in: in, out: out, said: &complaint{}, closed: make(chan struct{}), waiting: make(chan struct{})}
	s.cmd = exec.Command(r.path, "--root="+b.folders.runsc(), "exec", //nolint:gosec // runsc, with the backend's own words
		fmt.Sprintf("--user=%d:%d", core.DialUID, core.DialGID), box, core.GuestAgent, "dial")
	s.cmd.Env, s.cmd.Dir = bareEnv(), "/"
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirIn, theirOut, s.said
	s.cmd.WaitDelay = closeTime
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = s.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the command has its own
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		defer close(s.waiting)
		_ = s.cmd.Wait() // how it ends is told by what it said
	}()
	return s, nil
}

// closeTime is how long the command may take to end once its streams have.
const closeTime = 2 * time.Second

// Read implements io.Reader. At the end it returns the command's own complaint, if it made one.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if n > 0 || err == nil {
		return n, nil
	}
	select {
	case <-s.closed:
		return 0, io.EOF
	case <-s.waiting:
	}
	if text := s.said.text(); text != "" {
		return 0, core.Errorf(core.ErrUnavailable, "the box's agent cannot be reached: %s", text)
	}
	return 0, io.EOF
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.in.Write(p)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		err = core.Errorf(core.ErrUnavailable, "the stream to the box is broken: %w", err)
	}
	return n, err
}

// Close implements io.Closer. The command ends when its stdin does, or is ended.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		_, _ = s.in.Close(), s.out.Close()
		go func() {
			select {
			case <-s.waiting:
			case <-time.After(closeTime):
				_ = s.cmd.Process.Kill() // it may have ended meanwhile
			}
		}()
	})
	return nil
}

// complaint keeps some of what the command says on stderr.
type complaint struct {
	mu  sync.Mutex
	raw []byte
}

const maxComplaint = 2 << 10

// Write implements io.Writer.
func (c *complaint) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, p[:min(len(p), maxComplaint-len(c.raw))]...)
	return len(p), nil
}

func (c *complaint) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(c.raw), "�"))
}
