// Package server offers the agent's abilities to the host as ttrpc.
//
// It translates messages and bounds what one request may cost; what is done is in its sibling packages.
package server

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/preview"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/runner"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/workspace"
	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

const (
	// maxPiece bounds what one answer carries; a ttrpc message has 4 MB at the most.
	maxPiece = 1 << 20
	// beat is how often output is sent while it is produced.
	beat = 100 * time.Millisecond
)

// Server is the service.
type Server struct {
	Version   string
	Python    string
	Runner    *runner.Runner
	Workspace *workspace.Workspace
	Renderer  preview.Renderer
}

// Serve answers on the listener until it is closed.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	guestv1.RegisterGuestServiceService(server, s)
	return server.Serve(ctx, listener)
}

// Describe implements the service.
func (s *Server) Describe(context.Context, *guestv1.DescribeRequest) (*guestv1.DescribeResponse, error) {
	return &guestv1.DescribeResponse{Version: s.Version, Python: s.Python}, nil
}

// Attach implements the service.
func (s *Server) Attach(ctx context.Context, req *guestv1.AttachRequest) (*guestv1.AttachResponse, error) {
	exit, err := s.Runner.Wait(ctx, req.GetId())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.AttachResponse{Exit: encodeExit(exit)}, nil
}

// Kill implements the service.
func (s *Server) Kill(_ context.Context, req *guestv1.KillRequest) (*guestv1.KillResponse, error) {
	s.Runner.Kill(req.GetId())
	return &guestv1.KillResponse{}, nil
}

// ReadOutput implements the service.
func (s *Server) ReadOutput(_ context.Context, req *guestv1.ReadOutputRequest) (*guestv1.ReadOutputResponse, error) {
	data := make([]byte, pieceSize(req.GetLength()))
	piece, eof, err := s.Runner.ReadOutput(req.GetId(), core.Stream(req.GetStream()), data, req.GetOffset())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.ReadOutputResponse{Data: piece.Data, Eof: eof, Total: piece.Total, Ended: piece.Ended}, nil
}

// WriteStdin implements the service.
func (s *Server) WriteStdin(_ context.Context, req *guestv1.WriteStdinRequest) (*guestv1.WriteStdinResponse, error) {
	n, err := s.Runner.WriteStdin(req.GetId(), req.GetData(), req.GetEnd())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.WriteStdinResponse{Taken: int64(n)}, nil
}

// Variables implements the service.
func (s *Server) Variables(context.Context, *guestv1.VariablesRequest) (*guestv1.VariablesResponse, error) {
	variables, err := s.Runner.Variables()
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.VariablesResponse{Variables: encodeVariables(variables)}, nil
}

// ListFiles implements the service.
func (s *Server) ListFiles(_ context.Context, req *guestv1.ListFilesRequest) (*guestv1.ListFilesResponse, error) {
	files, cut, err := s.Workspace.List(string(req.GetDir()), req.GetRecursive())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.ListFilesResponse{Files: encodeEntries(files), Cut: cut}, nil
}

// RemoveFile implements the service.
func (s *Server) RemoveFile(_ context.Context, req *guestv1.RemoveFileRequest) (*guestv1.RemoveFileResponse, error) {
	if err := s.Workspace.Remove(string(req.GetPath())); err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.RemoveFileResponse{}, nil
}

// ReadFile implements the service.
func (s *Server) ReadFile(_ context.Context, req *guestv1.ReadFileRequest) (*guestv1.ReadFileResponse, error) {
	data := make([]byte, pieceSize(req.GetLength()))
	n, size, err := s.Workspace.ReadAt(string(req.GetPath()), data, req.GetOffset())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.ReadFileResponse{Data: data[:n], Eof: req.GetOffset()+int64(n) >= size, Size: size}, nil
}

func pieceSize(wanted int64) int64 {
	if wanted <= 0 {
		return maxPiece
	}
	return min(wanted, maxPiece)
}

// WriteFile implements the service.
func (s *Server) WriteFile(_ context.Context, stream guestv1.GuestService_WriteFileServer) error {
	return wire.ToStatus(s.writeFile(stream))
}

func (s *Server) writeFile(stream guestv1.GuestService_WriteFileServer) error {
	req, err := stream.Recv()
	if err != nil {
		return gone(err)
	}
	part, err := s.Workspace.Create(string(req.GetPath()))
	if err != nil {
		return err
	}
	defer part.Discard()
	for {
		if err := part.Write(req.GetData()); err != nil {
			return err
		}
		if req.GetCommit() {
			if err := part.Commit(); err != nil {
				return err
			}
		}
		if err := stream.Send(&guestv1.WriteFileResponse{}); err != nil || req.GetCommit() {
			return err
		}
		if req, err = stream.Recv(); err != nil {
			return gone(err)
		}
	}
}

// gone is the error of a host that broke off.
func gone(err error) error {
	return core.Errorf(core.ErrCancelled, "the host broke off: %w", err)
}

// Preview implements the service.
func (s *Server) Preview(ctx context.Context, req *guestv1.PreviewRequest) (*guestv1.PreviewResponse, error) {
	open := func() (*os.File, error) { return s.Workspace.Open(string(req.GetPath())) }
	p, err := s.Renderer.Render(ctx, open, req.GetLimit())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &guestv1.PreviewResponse{MimeType: p.MIMEType, Data: p.Data, Shrunk: p.Shrunk}, nil
}
