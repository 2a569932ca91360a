package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/boxwright/boxwright/core"
)

// Dial implements execution.Backend: an exec of the agent's dial command, which is a pipe to the
// agent's socket.
func (b *Backend) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	if !isID(box) {
		return nil, core.Errorf(core.ErrNotFound, "there is no such box")
	}
	e, err := b.finder.engine(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	if err := e.checkMine(ctx, box); err != nil {
		return nil, e.dialError(ctx, err)
	}
	exec, err := e.api.ContainerExecCreate(ctx, box, container.ExecOptions{
		User:         fmt.Sprintf("%d:%d", core.DialUID, core.DialGID),
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Cmd:          []string{core.GuestAgent, "dial"},
	})
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	conn, err := e.attach(ctx, exec.ID)
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	return newStream(conn.Conn, conn.Reader), nil
}

// attach starts the exec. The client does not look at ctx while it waits for the engine's
// answer, so it waits apart.
func (e *engine) attach(ctx context.Context, exec string) (types.HijackedResponse, error) {
	type result struct {
		conn types.HijackedResponse
		err  error
	}
	results, abandoned := make(chan result), make(chan struct{})
	go func() {
		conn, err := e.api.ContainerExecAttach(context.WithoutCancel(ctx), exec, container.ExecAttachOptions{})
		select {
		case results <- result{conn, err}:
		case <-abandoned:
			if err == nil {
				conn.Close()
			}
		}
	}()
	select {
	case r := <-results:
		return r.conn, r.err
	case <-ctx.Done():
		close(abandoned)
		return types.HijackedResponse{}, ctx.Err()
	}
}

func (e *engine) dialError(ctx context.Context, err error) error {
	switch {
	case cerrdefs.IsNotFound(err):
		return core.Errorf(core.ErrNotFound, "there is no such box")
	case cerrdefs.IsConflict(err):
		return core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	return e.fail(ctx, err, "the box could not be reached")
}

// The engine sends the exec's two outputs over one connection, in frames: which of the two,
// three zero bytes, the length, the bytes.
const (
	frameHeader = 8
	frameStdout = 1
	frameStderr = 2
	maxFrame    = 1 << 24
	maxComplain = 2 << 10
)

// stream is the connection to one exec of the agent's dial command.
type stream struct {
	conn   net.Conn
	frames *frameReader
	once   sync.Once
}

func newStream(conn net.Conn, r *bufio.Reader) *stream {
	return &stream{conn: conn, frames: &frameReader{r: r}}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) { return s.frames.Read(p) }

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.conn.Write(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		err = core.Errorf(core.ErrUnavailable, "the stream to the box is broken: %w", err)
	}
	return n, err
}

// Close implements io.Closer. The exec ends when its stdin does.
func (s *stream) Close() error {
	var err error
	s.once.Do(func() { err = s.conn.Close() })
	return err
}

// frameReader returns what came from stdout, and keeps some of what came from stderr for the
// error at the end. What it reads comes from inside the box.
type frameReader struct {
	r        io.Reader
	left     int // bytes of the current stdout frame that are not read yet
	complain []byte
}

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for f.left == 0 {
		if err := f.next(); err != nil {
			return 0, f.end(err)
		}
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	if n > 0 {
		return n, nil
	}
	return 0, f.end(err)
}

// next reads headers until a frame of stdout begins.
func (f *frameReader) next() error {
	var header [frameHeader]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(header[4:]))
	switch {
	case header[1]|header[2]|header[3] != 0 || size > maxFrame:
		return core.Errorf(core.ErrInternal, "the engine sent something else than a frame")
	case header[0] == frameStdout:
		f.left = size
		return nil
	case header[0] == frameStderr:
		return f.keep(size)
	}
	return core.Errorf(core.ErrInternal, "the engine sent a frame of an unknown stream")
}

func (f *frameReader) keep(size int) error {
	room := min(size, maxComplain-len(f.complain))
	part := make([]byte, room)
	if _, err := io.ReadFull(f.r, part); err != nil {
		return err
	}
	f.complain = append(f.complain, part...)
	_, err := io.CopyN(io.Discard, f.r, int64(size-room))
	return err
}

// end turns the end of the connection into the dial command's own complaint, if it made one.
func (f *frameReader) end(err error) error {
	if text := strings.TrimSpace(strings.ToValidUTF8(string(f.complain), "�")); text != "" && err != nil {
		return core.Errorf(core.ErrUnavailable, "the box's agent cannot be reached: %s", text)
	}
	switch {
	case err == nil, isOurs(err), errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	}
	return core.Errorf(core.ErrUnavailable, "the stream to the box is broken: %w", err)
}
