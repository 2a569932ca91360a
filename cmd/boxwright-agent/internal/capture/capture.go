// Package capture keeps what is wanted of a program's output and drops the rest, so that a program
// never waits for its reader and never costs more memory than was agreed.
//
// It knows neither processes nor the host; whoever reads the pipe writes into it.
package capture

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits bound one stream, in bytes.
type Limits struct {
	Head  int64 // kept from the beginning
	Tail  int64 // kept from the end
	Spill int64 // kept from the beginning in a file of its own, to be read later
}

// Capture is one stream. It is an io.Writer that never fails and never blocks.
type Capture struct {
	limits Limits

	mu      sync.Mutex
	head    []byte
	ring    []byte // what came after head; once full, next is where its oldest byte lies
	next    int
	total   int64
	file    *os.File
	spilled int64
	full    bool // nothing more is spilled
	live    *Live
}

// Result is what was kept. When nothing was cut, Head is all of it and Tail is empty.
type Result struct {
	Head, Tail     []byte
	Total, Spilled int64
}

// New returns an empty capture. live may be nil.
func New(limits Limits, live *Live) *Capture {
	return &Capture{limits: limits, live: live}
}

// Write takes all of p.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(p))
	c.spill(p)
	if c.live != nil {
		c.live.add(p)
	}
	rest := p
	if room := c.limits.Head - int64(len(c.head)); room > 0 {
		n := min(room, int64(len(rest)))
		c.head = append(c.head, rest[:n]...)
		rest = rest[n:]
	}
	c.keepLast(rest)
	return len(p), nil
}

// keepLast puts p into the ring, over its oldest bytes.
func (c *Capture) keepLast(p []byte) {
	size := int(c.limits.Tail)
	if over := len(p) - size; over > 0 {
		p = p[over:]
		c.ring, c.next = c.ring[:0], 0
	}
	if room := size - len(c.ring); room > 0 {
		n := min(room, len(p))
		c.ring = append(c.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.ring[c.next:], p)
		c.next = (c.next + n) % size
		p = p[n:]
	}
}

// spill writes to a file in memory that no other process can open. It counts towards the box's memory,
// so a box that is full simply spills less.
func (c *Capture) spill(p []byte) {
	room := c.limits.Spill - c.spilled
	if room <= 0 || c.full || len(p) == 0 {
		return
	}
	if c.file == nil {
		fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
		if err != nil {
			c.full = true
			return
		}
		c.file = os.NewFile(uintptr(fd), "output")
	}
	n, err := c.file.WriteAt(p[:min(room, int64(len(p)))], c.spilled)
	c.spilled += int64(n)
	c.full = err != nil
}

// Result returns what has been kept so far.
func (c *Capture) Result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := append(append([]byte{}, c.ring[c.next:]...), c.ring[:c.next]...)
	r := Result{Head: c.head, Tail: tail, Total: c.total, Spilled: c.spilled}
	if r.Total == int64(len(r.Head)+len(r.Tail)) {
		r.Head, r.Tail = append(append([]byte{}, r.Head...), r.Tail...), nil
	}
	return r
}

// Total returns how many bytes have been written so far.
func (c *Capture) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// ReadAt reads what was spilled. It returns io.EOF at its end.
func (c *Capture) ReadAt(p []byte, offset int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil || offset < 0 || offset >= c.spilled {
		return 0, io.EOF
	}
	n, err := c.file.ReadAt(p[:min(int64(len(p)), c.spilled-offset)], offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && offset+int64(n) >= c.spilled {
		err = io.EOF
	}
	return n, err
}

// Forget gives the spilled bytes up and returns how many they were.
func (c *Capture) Forget() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	freed := c.spilled
	if c.file != nil {
		_ = c.file.Close()
	}
	c.file, c.spilled, c.full = nil, 0, true
	return freed
}
