package sdk

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/boxwright/boxwright/core"
	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// chunk is the most that one message carries. gRPC's flow control counts bytes, so a slow
// reader stops the writer after a few of them.
const chunk = 64 << 10

// Dial implements execution.Backend.
func (c *Client) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	// The stream outlives ctx, which bounds its opening only.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	rpc, err := c.openStream(streamCtx, box)
	if !detach() {
		cancel()
		return nil, core.ContextError(ctx)
	}
	if err != nil {
		cancel()
		return nil, c.fromStatus(ctx, err)
	}
	return &clientStream{client: c, ctx: streamCtx, cancel: cancel, rpc: rpc}, nil
}

func (c *Client) openStream(ctx context.Context, box string) (grpc.BidiStreamingClient[backendv1.DialRequest, backendv1.DialResponse], error) {
	rpc, err := c.rpc.Dial(ctx)
	if err != nil {
		return nil, err
	}
	// Send's error says only that the stream ended; Recv tells why.
	_ = rpc.Send(&backendv1.DialRequest{Box: box})
	_, err = rpc.Recv()
	if errors.Is(err, io.EOF) {
		err = wire.ToStatus(core.Errorf(core.ErrInternal, "the plugin ended the stream before it was open"))
	}
	return rpc, err
}

// clientStream is the host's end of a stream to an agent.
type clientStream struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	rpc    grpc.BidiStreamingClient[backendv1.DialRequest, backendv1.DialResponse]

	reading sync.Mutex
	rest    []byte

	writing sync.Mutex
}

// Read implements io.Reader.
func (s *clientStream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for len(s.rest) == 0 {
		r, err := s.rpc.Recv()
		if err != nil {
			return 0, s.ended(err)
		}
		s.rest = r.GetData()
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write implements io.Writer.
func (s *clientStream) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	done := 0
	for done < len(p) {
		part := p[done:min(done+chunk, len(p))]
		if err := s.rpc.Send(&backendv1.DialRequest{Data: part}); err != nil {
			return done, s.ended(err)
		}
		done += len(part)
	}
	return done, nil
}

// Close implements io.Closer.
func (s *clientStream) Close() error {
	s.cancel()
	return nil
}

func (s *clientStream) ended(err error) error {
	switch {
	case s.ctx.Err() != nil:
		return io.ErrClosedPipe
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return s.client.fromStatus(s.ctx, err)
}

// Dial implements backendv1.BackendServiceServer: it copies both ways until either side ends.
func (s *server) Dial(stream grpc.BidiStreamingServer[backendv1.DialRequest, backendv1.DialResponse]) error {
	b, end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if n := len(first.GetBox()); n == 0 || n > maxID {
		return wire.ToStatus(core.Errorf(core.ErrNotFound, "there is no such box"))
	}
	agent, err := b.Dial(stream.Context(), first.GetBox())
	if err != nil {
		return wire.ToStatus(err)
	}
	defer func() { _ = agent.Close() }() // it ends either way
	if err := stream.Send(&backendv1.DialResponse{}); err != nil {
		return err
	}
	go toAgent(stream, agent)
	return fromAgent(stream, agent)
}

// toAgent ends with the stream; closing the agent's side ends fromAgent.
func toAgent(stream grpc.BidiStreamingServer[backendv1.DialRequest, backendv1.DialResponse], agent io.WriteCloser) {
	defer func() { _ = agent.Close() }() // it ends either way
	for {
		r, err := stream.Recv()
		if err != nil {
			return
		}
		if _, err := agent.Write(r.GetData()); err != nil {
			return
		}
	}
}

func fromAgent(stream grpc.BidiStreamingServer[backendv1.DialRequest, backendv1.DialResponse], agent io.Reader) error {
	buf := make([]byte, chunk)
	for {
		n, err := agent.Read(buf)
		if n > 0 {
			if sendErr := stream.Send(&backendv1.DialResponse{Data: buf[:n]}); sendErr != nil {
				return sendErr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wire.ToStatus(err)
		}
	}
}
