package sdk

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/boxwright/boxwright/core"
	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
	"github.com/boxwright/boxwright/proto/wire"

	"github.com/boxwright/boxwright/ports/execution"
)

// maxID bounds the ids and names that a peer sends; engines' own are shorter.
const maxID = 256

// server serves a backend over gRPC.
type server struct {
	backendv1.UnimplementedBackendServiceServer
	open  Open
	calls sync.WaitGroup

	mu      sync.Mutex
	backend execution.Backend
}

func newServer(open Open) *server { return &server{open: open} }

// Configure opens the backend. A failed one may be repeated.
func (s *server) Configure(ctx context.Context, r *backendv1.ConfigureRequest) (*backendv1.ConfigureResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend != nil {
		return nil, wire.ToStatus(core.Errorf(core.ErrInvalid, "the plugin is configured already"))
	}
	b, err := s.open(ctx, configFromProto(r))
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	s.backend = b
	return &backendv1.ConfigureResponse{}, nil
}

// begin returns the backend, and what the call must do at its end.
func (s *server) begin() (execution.Backend, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend == nil {
		return nil, nil, wire.ToStatus(core.Errorf(core.ErrInvalid, "the plugin is not configured yet: Configure comes first"))
	}
	s.calls.Add(1)
	return s.backend, s.calls.Done, nil
}

// drain waits for the calls that still undo something, but not for ever.
func (s *server) drain(limit time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.calls.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		closeBackend(s.backend)
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// Info implements backendv1.BackendServiceServer.
func (s *server) Info(ctx context.Context, _ *backendv1.InfoRequest) (*backendv1.InfoResponse, error) {
	b, end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	info, err := b.Info(ctx)
	return infoToProto(info), wire.ToStatus(err)
}

// EnsureImage implements backendv1.BackendServiceServer.
func (s *server) EnsureImage(r *backendv1.EnsureImageRequest, stream grpc.ServerStreamingServer[backendv1.EnsureImageResponse]) error {
	b, end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	report := func(p core.Progress) {
		// A host that is gone ends the stream's ctx, which ends EnsureImage.
		_ = stream.Send(&backendv1.EnsureImageResponse{Event: &backendv1.EnsureImageResponse_Progress{Progress: progressToProto(p)}})
	}
	image, err := b.EnsureImage(stream.Context(), r.GetRef(), core.PullPolicy(r.GetPolicy()), report)
	if err != nil {
		return wire.ToStatus(err)
	}
	return stream.Send(&backendv1.EnsureImageResponse{Event: &backendv1.EnsureImageResponse_Image{Image: imageToProto(image)}})
}

// Create implements backendv1.BackendServiceServer.
func (s *server) Create(ctx context.Context, r *backendv1.CreateRequest) (*backendv1.CreateResponse, error) {
	b, end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	box, err := b.Create(ctx, specFromProto(r))
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	if ctx.Err() != nil { // nobody gets the answer
		destroyUnseen(ctx, b, box.ID)
		return nil, wire.ToStatus(core.ContextError(ctx))
	}
	return &backendv1.CreateResponse{Box: boxToProto(box)}, nil
}

// unseenTime bounds the removal of a box that its caller will not hear of.
const unseenTime = time.Minute

// destroyUnseen removes a box that came too late. One that stays is labelled, and found by the
// host's sweep.
func destroyUnseen(ctx context.Context, b execution.Backend, box string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unseenTime)
	defer cancel()
	_ = b.Destroy(ctx, box)
}

// List implements backendv1.BackendServiceServer.
func (s *server) List(ctx context.Context, r *backendv1.ListRequest) (*backendv1.ListResponse, error) {
	b, end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	have, err := b.List(ctx, r.GetInstance())
	return inventoryToProto(have), wire.ToStatus(err)
}

// Destroy implements backendv1.BackendServiceServer.
func (s *server) Destroy(ctx context.Context, r *backendv1.DestroyRequest) (*backendv1.DestroyResponse, error) {
	b, end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if len(r.GetBox()) > maxID {
		return &backendv1.DestroyResponse{}, nil // no engine has such an id
	}
	return &backendv1.DestroyResponse{}, wire.ToStatus(b.Destroy(ctx, r.GetBox()))
}

// EnsureVolume implements backendv1.BackendServiceServer.
func (s *server) EnsureVolume(ctx context.Context, r *backendv1.EnsureVolumeRequest) (*backendv1.EnsureVolumeResponse, error) {
	b, end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := b.EnsureVolume(ctx, volumeFromProto(r.GetVolume()))
	return &backendv1.EnsureVolumeResponse{Volume: volumeToProto(v)}, wire.ToStatus(err)
}

// RemoveVolume implements backendv1.BackendServiceServer.
func (s *server) RemoveVolume(ctx context.Context, r *backendv1.RemoveVolumeRequest) (*backendv1.RemoveVolumeResponse, error) {
	b, end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	return &backendv1.RemoveVolumeResponse{}, wire.ToStatus(b.RemoveVolume(ctx, r.GetName()))
}
