//go:build unix

// Package execstream makes a stream of a command, for backends that reach a box's agent by running
// something, such as an engine's own "exec -i BOX boxwright-agent dial". It knows no engine.
package execstream

import (
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"

	"github.com/boxwright/boxwright/core"
)

// Start starts cmd and returns the other end of its standard input and output, which are one socket;
// cmd.Stdin and cmd.Stdout must be nil. Reading ends when the command does, and the command's
// standard input ends when the stream is closed: a command that ignores that outlives it. The stream
// is a net.Conn. A command that does not start is core.ErrUnavailable.
func Start(cmd *exec.Cmd) (io.ReadWriteCloser, error) {
	stream, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }() // it is passed on
	cmd.Stdin, cmd.Stdout = theirs, theirs
	if err := cmd.Start(); err != nil {
		_ = stream.Close() // nobody is at its other end
		return nil, core.Errorf(core.ErrUnavailable, "%s does not start: %w", cmd.Path, err)
	}
	go func() { _ = cmd.Wait() }() // the end of the stream tells of its end
	return stream, nil
}

// Pair makes a stream, and its other end as a file to hand to a command; the caller closes both. If there is no
// socket left, the error is core.ErrExhausted.
func Pair() (ours net.Conn, theirs *os.File, err error) {
	pair, err := socketpair()
	if err != nil {
		return nil, nil, core.Errorf(core.ErrExhausted, "there is no socket left: %w", err)
	}
	file, theirs := os.NewFile(uintptr(pair[0]), "stream"), os.NewFile(uintptr(pair[1]), "command")
	defer func() { _ = file.Close() }() // ours is a copy
	if ours, err = net.FileConn(file); err != nil {
		_ = theirs.Close() // nobody is at its other end
		return nil, nil, core.Errorf(core.ErrInternal, "the stream cannot be made: %w", err)
	}
	return ours, theirs, nil
}

// socketpair makes two sockets that no other command inherits.
func socketpair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	return pair, err
}
