package main

import (
	"net"
	"os"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// firstStream returns the stream that the box was started with; nil if it was started without.
func firstStream(o options) (net.Conn, error) {
	if o.stdio {
		return takeStdio()
	}
	if o.stream < 0 {
		return nil, nil //nolint:nilnil // as the comment says
	}
	file := os.NewFile(uintptr(o.stream), "stream")
	defer file.Close() //nolint:errcheck // FileConn has a copy
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "descriptor %d is not a stream: %w", o.stream, err)
	}
	return conn, nil
}

// takeStdio makes a stream of standard input and output, and puts the null device in their place.
func takeStdio() (net.Conn, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, core.Errorf(core.ErrUnsupported, "the box has no null device: %w", err)
	}
	defer null.Close() //nolint:errcheck // its copies stay
	s := &stdio{}
	for fd, into := range []**os.File{&s.in, &s.out} {
		copied, err := syscall.Dup(fd)
		if err != nil {
			return nil, core.Errorf(core.ErrInvalid, "descriptor %d cannot be a stream: %w", fd, err)
		}
		syscall.CloseOnExec(copied)
		_ = syscall.SetNonblock(copied, true) // then it takes no thread to wait for it
		*into = os.NewFile(uintptr(copied), "stream")
		if err := syscall.Dup3(int(null.Fd()), fd, 0); err != nil {
			return nil, core.Errorf(core.ErrInternal, "descriptor %d cannot be closed: %w", fd, err)
		}
	}
	return s, nil
}

// stdio is a connection of two descriptors. ttrpc sets no deadlines on it.
type stdio struct{ in, out *os.File }

// stdioAddr is its address: it has none.
type stdioAddr struct{}

// Network implements net.Addr.
func (stdioAddr) Network() string { return "stdio" }

// String implements net.Addr.
func (stdioAddr) String() string { return "stdio" }

// Read implements net.Conn.
func (s *stdio) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write implements net.Conn.
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }

// Close implements net.Conn.
func (s *stdio) Close() error {
	err := s.in.Close()
	if outErr := s.out.Close(); err == nil {
		err = outErr
	}
	return err
}

// LocalAddr implements net.Conn.
func (*stdio) LocalAddr() net.Addr { return stdioAddr{} }

// RemoteAddr implements net.Conn.
func (*stdio) RemoteAddr() net.Addr { return stdioAddr{} }

// SetDeadline implements net.Conn.
func (*stdio) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (*stdio) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (*stdio) SetWriteDeadline(time.Time) error { return nil }
