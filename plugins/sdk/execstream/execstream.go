//go:build unix

// Package execstream makes a stream of a command, for backends that reach a box's agent by running
// something, such as an engine's own "exec -i BOX boxwright-agent dial". It knows no engine.
package execstream

import (
	"errors"
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
	pair, err := socketpair()
	if err != nil {
		return nil, core.Errorf(core.ErrExhausted, "there is no socket left: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "stream"), os.NewFile(uintptr(pair[1]), "command")
	defer func() { _ = errors.Join(ours.Close(), theirs.Close()) }() // both are passed on
	stream, err := net.FileConn(ours)
	if err != nil {
		return nil, core.Errorf(core.ErrInternal, "the stream cannot be made: %w", err)
	}
	cmd.Stdin, cmd.Stdout = theirs, theirs
	if err := cmd.Start(); err != nil {
		_ = stream.Close() // nobody is at its other end
		return nil, core.Errorf(core.ErrUnavailable, "%s does not start: %w", cmd.Path, err)
	}
	go func() { _ = cmd.Wait() }() // the end of the stream tells of its end
	return stream, nil
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
