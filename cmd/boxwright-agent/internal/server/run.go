package server

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fault"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/runner"
	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// Run implements the service.
func (s *Server) Run(ctx context.Context, stream guestv1.GuestService_RunServer) error {
	return wire.ToStatus(fault.Contain(func() error {
		run, err := s.begin(stream)
		if err != nil {
			return err
		}
		return follow(ctx, run, stream)
	}))
}

// begin takes the spec, the code and the stdin, and starts the run.
func (s *Server) begin(stream guestv1.GuestService_RunServer) (*runner.Run, error) {
	req, err := stream.Recv()
	if err != nil {
		return nil, gone(err)
	}
	sent := req.GetSpec()
	if sent == nil {
		return nil, core.Errorf(core.ErrInvalid, "a run begins with its spec")
	}
	run, err := s.Runner.Begin(decodeSpec(sent))
	if err != nil {
		return nil, err
	}
	code, stdin, err := receive(stream, sent)
	if err != nil {
		s.Runner.Abandon(run)
		return nil, err
	}
	return run, s.Runner.Start(run, code, stdin)
}

func receive(stream guestv1.GuestService_RunServer, sent *guestv1.RunSpec) (code, stdin []byte, err error) {
	if sent.GetPython() {
		code = []byte{}
	}
	if sent.GetHasStdin() {
		stdin = []byte{}
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil, nil, gone(err)
		}
		if req.GetStart() {
			return code, stdin, nil
		}
		code, stdin = append(code, req.GetCode()...), append(stdin, req.GetStdin()...)
		switch {
		case len(code) > runner.MaxCode:
			return nil, nil, core.Errorf(core.ErrExhausted, "the code is longer than %d bytes", runner.MaxCode).
				WithHint("write large data into a file of the workspace")
		case len(stdin) > runner.MaxStdin:
			return nil, nil, core.Errorf(core.ErrExhausted, "stdin is longer than %d bytes", runner.MaxStdin).
				WithHint("write large data into a file of the workspace")
		}
	}
}

// follow sends output while it is produced, and then the exit. The run goes on if the host is gone.
func follow(ctx context.Context, run *runner.Run, stream guestv1.GuestService_RunServer) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if err := sendLive(run, stream); err != nil {
				return err
			}
		case <-run.Done():
			exit, err := run.Result()
			if err != nil {
				return err
			}
			if err := sendLive(run, stream); err != nil {
				return err
			}
			return stream.Send(&guestv1.RunResponse{Event: &guestv1.RunResponse_Exit{Exit: encodeExit(exit)}})
		}
	}
}

func sendLive(run *runner.Run, stream guestv1.GuestService_RunServer) error {
	for _, name := range []core.Stream{core.Stdout, core.Stderr} {
		data := run.Live(name)
		if len(data) == 0 {
			continue
		}
		chunk := &guestv1.Chunk{Stream: string(name), Data: data}
		if err := stream.Send(&guestv1.RunResponse{Event: &guestv1.RunResponse_Output{Output: chunk}}); err != nil {
			return err
		}
	}
	return nil
}
