package docker

import (
	"context"
	"io"

	"github.com/docker/docker/api/types/container"
)

// ending is a stream that ends when its box does.
type ending struct {
	io.ReadWriteCloser
	stop context.CancelFunc
}

// Close implements io.Closer.
func (s ending) Close() error {
	s.stop()
	return s.ReadWriteCloser.Close()
}

// endWith has the stream end with the box. With a runtime like runsc the engine does not always learn that
// an exec is over when the whole sandbox is, and would leave the stream open for ever.
func (e *engine) endWith(box string, stream io.ReadWriteCloser) io.ReadWriteCloser {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended, failed := e.api.ContainerWait(ctx, box, container.WaitConditionNotRunning)
		select {
		case <-ended:
		case <-failed: //nolint:errcheck // the box or the engine is gone, or nobody needs the stream any more
		}
		if ctx.Err() == nil {
			_ = stream.Close()
		}
	}()
	return ending{stream, stop}
}
