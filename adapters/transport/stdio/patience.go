package stdio

import (
	"bytes"
	"io"
	"time"
)

// patience lets requests get under way before a cancellation that follows them is read. The library
// takes tool calls up in the background and cancellations at once: one that it sees before its call is
// under way is forgotten, and the call goes on.
type patience struct {
	in     io.Reader
	buffer [32 << 10]byte
	held   []byte // read from in, not yet handed on
	err    error  // that in gave with it
}

// pickUp is how long calls may take to get under way; on an idle machine they need microseconds.
const pickUp = 25 * time.Millisecond

// Read implements io.Reader.
func (p *patience) Read(b []byte) (int, error) {
	if len(p.held) == 0 {
		n, err := p.in.Read(p.buffer[:])
		p.held, p.err = p.buffer[:n], err
	}
	ready := p.held
	switch at := cancellation(p.held); {
	case at > 0:
		ready = p.held[:at]
	case at == 0:
		time.Sleep(pickUp)
		ready = firstOf(p.held)
	}
	n := copy(b, ready)
	p.held = p.held[n:]
	if len(p.held) > 0 {
		return n, nil
	}
	return n, p.err
}

// cancellation is where the first line begins that may be a cancellation; -1 if none is seen. Should
// a program's text hold the word, it comes a little later.
func cancellation(b []byte) int {
	before, _, found := bytes.Cut(b, []byte("notifications/cancelled"))
	if !found {
		return -1
	}
	return bytes.LastIndexByte(before, '\n') + 1
}

// firstOf is the first line of b, with its end.
func firstOf(b []byte) []byte {
	if at := bytes.IndexByte(b, '\n'); at >= 0 {
		return b[:at+1]
	}
	return b
}
