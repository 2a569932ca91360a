//go:build unix

package execstream

import (
	"errors"
	"io"
	"net"
	"testing"
)

func TestFirstIsTakenOnce(t *testing.T) {
	var f First
	stream, _ := net.Pipe()
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
	f.Drop("a")
	if _, err := stream.Write(nil); err != nil {
		t.Errorf("what was taken is closed: %v", err)
	}
}

func TestFirstThatIsDroppedIsClosed(t *testing.T) {
	var f First
	stream, other := net.Pipe()
	f.Put("a", stream)
	f.Drop("a")
	if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the stream's end", err)
	}
	if _, ok := f.Take("a"); ok {
		t.Error("it can be taken")
	}
}
