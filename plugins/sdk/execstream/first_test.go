//go:build unix

package execstream

import "testing"

// closable is a stream that notes whether it was closed.
type closable struct{ closed bool }

func (c *closable) Read([]byte) (int, error)    { return 0, nil }
func (c *closable) Write(p []byte) (int, error) { return len(p), nil }
func (c *closable) Close() error                { c.closed = true; return nil }

func TestFirstIsTakenOnce(t *testing.T) {
	var f First
	stream := &closable{}
	f.Put("a", stream)
	if _, ok := f.Take("b"); ok {
		t.Error("another box's stream was taken")
	}
	if got, ok := f.Take("a"); !ok || got != stream {
		t.Errorf("got %v, %v, want the stream", got, ok)
	}
	if _, ok := f.Take("a"); ok {
		t.Error("it was taken twice")
	}
	if f.Drop("a"); stream.closed {
		t.Error("what was taken was closed")
	}
}

func TestFirstThatIsDroppedIsClosed(t *testing.T) {
	var f First
	stream := &closable{}
	f.Put("a", stream)
	if f.Drop("a"); !stream.closed {
		t.Error("it was not closed")
	}
	if _, ok := f.Take("a"); ok {
		t.Error("it can be taken")
	}
}
