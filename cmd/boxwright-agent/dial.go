package main

import (
	"io"
	"net"
	"os"
	"time"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/gvisor"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/server"
	"github.com/boxwright/boxwright/core"
)

const (
	// dialTime bounds the wait for an agent that is still starting.
	dialTime  = 10 * time.Second
	dialPause = 5 * time.Millisecond
)

// dial joins stdin and stdout to the agent's socket until either side ends.
func dial(in, out *os.File) error {
	if !gvisor.Inside() {
		reserveThreads(dialThreads)
	}
	conn, err := connect()
	if err != nil {
		return err
	}
	if err := server.Greet(conn); err != nil {
		return core.Errorf(core.ErrUnavailable, "the agent turns this user away: %w", err)
	}
	done := make(chan error, 2)
	go copyTo(done, conn, in)
	go copyTo(done, out, conn)
	return <-done
}

func copyTo(done chan<- error, to io.Writer, from io.Reader) {
	_, err := io.Copy(to, from)
	done <- err
}

func connect() (*net.UnixConn, error) {
	deadline := time.Now().Add(dialTime)
	for {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: server.Address, Net: "unix"})
		if err == nil {
			return conn, nil
		}
		if time.Now().After(deadline) {
			return nil, core.Errorf(core.ErrUnavailable, "the agent does not answer: %w", err)
		}
		time.Sleep(dialPause)
	}
}
