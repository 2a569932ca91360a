package daemon

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// An engine sends the exec's two outputs over one connection, in frames: which of the two,
// three zero bytes, the length, the bytes.
const (
	frameHeader = 8
	frameStdout = 1
	frameStderr = 2
	maxFrame    = 1 << 24
	maxComplain = 2 << 10
)

// Stream is the connection to one exec of the agent's dial command.
type Stream struct {
	conn   net.Conn
	frames *frameReader
	once   sync.Once
}

// NewStream reads frames from r, which may have read ahead from conn, and writes to conn.
func NewStream(conn net.Conn, r io.Reader) *Stream {
	return &Stream{conn: conn, frames: &frameReader{r: r}}
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) { return s.frames.Read(p) }

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (int, error) {
	n, err := s.conn.Write(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		err = core.Errorf(core.ErrUnavailable, "the stream to the box is broken: %w", err)
	}
	return n, err
}

// Close implements io.Closer. The exec ends when its stdin does.
func (s *Stream) Close() error {
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
	case err == nil, core.HasKind(err), errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	}
	return core.Errorf(core.ErrUnavailable, "the stream to the box is broken: %w", err)
}
