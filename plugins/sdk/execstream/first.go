//go:build unix

package execstream

import (
	"io"
	"sync"
)

// First keeps the streams that boxes were started with until a dial takes them: they spare it the time of
// running a command in the box. The zero value is ready, and every method may be called at the same time.
type First struct {
	mu    sync.Mutex
	byBox map[string]io.ReadWriteCloser
}

// Put keeps a box's stream.
func (f *First) Put(box string, stream io.ReadWriteCloser) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byBox == nil {
		f.byBox = map[string]io.ReadWriteCloser{}
	}
	f.byBox[box] = stream
}

// Take returns a box's stream, once.
func (f *First) Take(box string) (stream io.ReadWriteCloser, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stream, ok = f.byBox[box]
	delete(f.byBox, box)
	return stream, ok
}

// Drop closes a box's stream, if nobody has taken it.
func (f *First) Drop(box string) {
	if stream, ok := f.Take(box); ok {
		_ = stream.Close() // its box is gone, or about to go
	}
}
