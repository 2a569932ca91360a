package docker

import (
	"context"
	"io"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
)

// firstStreams are the streams that boxes were started with, until a dial takes them. They spare the exec of a
// dial, which takes as long as a quarter of a box. The zero value is ready.
type firstStreams struct {
	mu    sync.Mutex
	byBox map[string]io.ReadWriteCloser
}

func (f *firstStreams) put(box string, stream io.ReadWriteCloser) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byBox == nil {
		f.byBox = map[string]io.ReadWriteCloser{}
	}
	f.byBox[box] = stream
}

// take returns a box's first stream, once.
func (f *firstStreams) take(box string) (io.ReadWriteCloser, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stream, ok := f.byBox[box]
	delete(f.byBox, box)
	return stream, ok
}

// close gives up a stream that nobody took.
func (f *firstStreams) close(box string) {
	if stream, ok := f.take(box); ok {
		_ = stream.Close() // its box is gone, or about to go
	}
}

// openFirst attaches to a box that is about to start, unless its runtime is a sandbox, which may not hand the
// stream through.
func (b *Backend) openFirst(ctx context.Context, e *engine, id string) error {
	if e.facts().sandbox {
		return nil
	}
	stream, err := e.attach(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return e.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err == nil {
		b.first.put(id, stream)
	}
	return err
}
