package runner

import (
	"errors"
	"os"
	"time"

	"github.com/boxwright/boxwright/core"
)

// roomTime is how long the host waits for a program to make room in its pipe before it is told so.
const roomTime = 100 * time.Millisecond

// input is a stdin to which more can be added while the program runs. It holds nothing back: what there is
// no room for stays the host's.
type input struct {
	turn  chan struct{} // holds a token while nobody writes, once there is a pipe
	pipe  *os.File
	ended bool // these two belong to whoever has the token
}

func newInput() *input { return &input{turn: make(chan struct{}, 1)} }

// open takes the pipe over and feeds it with what is known already, in a while.
func (in *input) open(pipe *os.File, first []byte) {
	in.pipe = pipe
	go func() {
		if _, err := pipe.Write(first); err != nil {
			in.close()
		}
		in.turn <- struct{}{}
	}()
}

// add writes what there is room for, and closes the pipe after the last byte if that is the end.
func (in *input) add(data []byte, end bool) (int, error) {
	select {
	case <-in.turn:
		defer func() { in.turn <- struct{}{} }()
	case <-time.After(roomTime):
		return 0, nil
	}
	if in.ended {
		return 0, errStdinClosed()
	}
	_ = in.pipe.SetWriteDeadline(time.Now().Add(roomTime))
	n, err := in.pipe.Write(data)
	switch {
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		in.close()
		return n, errStdinClosed()
	case end && n == len(data):
		in.close()
	}
	return n, nil
}

// close needs the token.
func (in *input) close() {
	in.ended = true
	_ = in.pipe.Close()
}

func errStdinClosed() error {
	return core.Errorf(core.ErrInvalid, "the stdin of this run is closed").
		WithHint("ask for an open stdin when the run is started")
}
