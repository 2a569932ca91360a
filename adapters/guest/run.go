package guest

import (
	"context"
	"errors"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// outcome is how a run ended, or why that is not known.
type outcome struct {
	exit *guestv1.Exit
	err  error
}

// Run implements execution.Guest.
func (g *Guest) Run(ctx context.Context, spec core.RunSpec, sink func(core.Stream, []byte)) (core.Exit, error) {
	if err := check(spec); err != nil {
		return core.Exit{}, err
	}
	if ctx.Err() != nil {
		return core.Exit{}, core.ContextError(ctx)
	}
	// The run outlives ctx by the time that its end takes.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	pump := newPump(sink)
	defer pump.stop()
	ended := make(chan outcome, 1)
	go func() {
		exit, err := g.conduct(ctx, inner, spec, pump)
		ended <- outcome{exit, err}
	}()
	var o outcome
	select {
	case o = <-ended:
	case <-ctx.Done():
		o = g.end(ctx, inner, spec, ended)
	}
	if o.err != nil {
		return core.Exit{}, o.err
	}
	return decodeExit(o.exit, spec.Output), nil
}

// end has the run killed and waits a little for its exit.
func (g *Guest) end(ctx, inner context.Context, spec core.RunSpec, ended <-chan outcome) outcome {
	patience := grace
	if spec.Keep || spec.Session {
		patience = graceInSession
	}
	inner, cancel := context.WithTimeout(inner, patience)
	defer cancel()
	for {
		_, _ = call(inner, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.KillResponse, error) {
			return client.Kill(ctx, &guestv1.KillRequest{Id: spec.ID})
		})
		select {
		case o := <-ended:
			return o
		case <-time.After(again):
		case <-inner.Done():
			return outcome{err: core.ContextError(ctx)}
		}
	}
}

// conduct runs the program on one stream, and waits for its end on others if that is lost. A box that does not
// know the run then never got it: the stream was dead before, as that of a box which nobody has used for a
// while may be. It gets it once more.
func (g *Guest) conduct(caller, inner context.Context, spec core.RunSpec, pump *pump) (*guestv1.Exit, error) {
	exit, err := g.play(caller, inner, spec, pump)
	if !errors.Is(err, errLost) {
		return exit, err
	}
	exit, err = g.attach(inner, spec.ID)
	if !errors.Is(err, core.ErrNotFound) {
		return exit, err
	}
	exit, err = g.play(caller, inner, spec, pump)
	if errors.Is(err, errLost) {
		err = errRunLost()
	}
	return exit, err
}

// play runs the program on the stream that there is, or a new one.
func (g *Guest) play(caller, inner context.Context, spec core.RunSpec, pump *pump) (*guestv1.Exit, error) {
	return try(inner, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.Exit, error) {
		return stream(caller, ctx, client, spec, pump)
	})
}

// stream sends the program and takes its output until its exit comes.
func stream(caller, ctx context.Context, client guestv1.GuestServiceClient, spec core.RunSpec, pump *pump) (*guestv1.Exit, error) {
	run, err := client.Run(ctx)
	if err != nil {
		return nil, err
	}
	if err := send(caller, run, spec); err != nil {
		return nil, err
	}
	for {
		response, err := run.Recv()
		if err != nil {
			return nil, err
		}
		if exit := response.GetExit(); exit != nil {
			// The end of the stream follows; taking it frees the stream's place in the client.
			_, _ = run.Recv()
			return exit, nil
		}
		if output := response.GetOutput(); output != nil {
			pump.add(core.Stream(output.GetStream()), output.GetData())
		}
	}
}

// send leaves a caller's program unstarted if the caller is gone by then.
func send(caller context.Context, run guestv1.GuestService_RunClient, spec core.RunSpec) error {
	if err := run.Send(&guestv1.RunRequest{Part: &guestv1.RunRequest_Spec{Spec: encodeSpec(spec)}}); err != nil {
		return err
	}
	for rest := spec.Code; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
		piece := rest[:min(chunk, len(rest))]
		if err := run.Send(&guestv1.RunRequest{Part: &guestv1.RunRequest_Code{Code: piece}}); err != nil {
			return err
		}
	}
	for rest := spec.Stdin; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
		piece := rest[:min(chunk, len(rest))]
		if err := run.Send(&guestv1.RunRequest{Part: &guestv1.RunRequest_Stdin{Stdin: piece}}); err != nil {
			return err
		}
	}
	if caller.Err() != nil {
		_ = run.CloseSend()
		return wire.ToStatus(core.ContextError(caller))
	}
	return run.Send(&guestv1.RunRequest{Part: &guestv1.RunRequest_Start{Start: true}})
}

// attach takes up a run whose stream was lost. Each new stream begins a new term.
func (g *Guest) attach(ctx context.Context, id string) (*guestv1.Exit, error) {
	deadline := time.Now().Add(reattach)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		dialled := time.Now()
		response, err := try(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.AttachResponse, error) {
			return client.Attach(ctx, &guestv1.AttachRequest{Id: id})
		})
		switch {
		case err == nil && response.GetExit() != nil:
			return response.GetExit(), nil
		case err == nil:
			return nil, errRunLost()
		case !errors.Is(err, errLost) && core.KindOf(err) != core.ErrUnavailable, g.link.isClosed():
			return nil, unreachable(err)
		case time.Since(dialled) > reattach:
			deadline = time.Now().Add(reattach)
		}
		if time.Now().After(deadline) {
			return nil, errRunLost()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, core.ContextError(ctx)
		}
	}
}

func errRunLost() error {
	return core.Errorf(core.ErrUnavailable, "the box was lost while the code ran").
		WithHint("it may have been removed or have run out of memory; run the code again")
}

// check refuses what cannot be sent.
func check(spec core.RunSpec) error {
	if spec.ID == "" {
		return core.Errorf(core.ErrInvalid, "a run needs an id")
	}
	if err := checkProgram(spec); err != nil {
		return err
	}
	texts := append(append([]string{spec.ID, spec.Dir, spec.CodeFile}, spec.Argv...), spec.PythonPath...)
	for name, value := range spec.Env {
		texts = append(texts, name, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return core.Errorf(core.ErrInvalid, "an argument, a folder or an environment variable is not UTF-8")
		}
	}
	return nil
}

// checkProgram refuses what is no program, or too large.
func checkProgram(spec core.RunSpec) error {
	switch {
	case spec.Code == nil && len(spec.Argv) == 0:
		return core.Errorf(core.ErrInvalid, "a run has neither code nor a command")
	case (spec.CodeFile != "") != (spec.Code != nil && len(spec.Argv) > 0):
		return core.Errorf(core.ErrInvalid, "a run with code and a command names the argument that stands for the code's file; no other does")
	case spec.Session && (spec.Code == nil || len(spec.Argv) > 0):
		return core.Errorf(core.ErrInvalid, "only Python code runs in a session's interpreter")
	case len(spec.Code) > maxCode:
		return core.Errorf(core.ErrInvalid, "the code has %d bytes: at most %d are allowed", len(spec.Code), maxCode).
			WithHint("write large data into a file of the workspace")
	case len(spec.Stdin) > maxStdin:
		return core.Errorf(core.ErrInvalid, "stdin has %d bytes: at most %d are allowed", len(spec.Stdin), maxStdin).
			WithHint("write large data into a file of the workspace")
	}
	return nil
}

func encodeSpec(spec core.RunSpec) *guestv1.RunSpec {
	return &guestv1.RunSpec{
		Id:          spec.ID,
		Python:      spec.Code != nil,
		Argv:        spec.Argv,
		HasStdin:    spec.Stdin != nil,
		Dir:         spec.Dir,
		Env:         spec.Env,
		PythonPath:  spec.PythonPath,
		TimeoutMs:   milliseconds(spec.Timeout),
		OutputHead:  spec.Output.Head,
		OutputTail:  spec.Output.Tail,
		OutputSpill: spec.Output.Spill,
		Stream:      spec.Stream,
		Session:     spec.Session,
		Keep:        spec.Keep,
		CodeFile:    spec.CodeFile,
		OpenStdin:   spec.OpenStdin,
	}
}

// milliseconds rounds up: a timeout that is not zero stays one.
func milliseconds(d time.Duration) int64 {
	return int64(math.Ceil(float64(d) / float64(time.Millisecond)))
}

// ReadOutput implements execution.Guest.
func (g *Guest) ReadOutput(ctx context.Context, run string, stream core.Stream, w io.Writer, limit int64) (int64, error) {
	total, _, err := copyPieces(w, limit, func(offset, length int64) ([]byte, bool, error) {
		piece, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.ReadOutputResponse, error) {
			return client.ReadOutput(ctx, &guestv1.ReadOutputRequest{Id: run, Stream: string(stream), Offset: offset, Length: length})
		})
		return piece.GetData(), piece.GetEof(), err
	})
	return total, err
}
