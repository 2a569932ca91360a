package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// GetRun returns what is known of the owner's run: its record, once it has ended. It waits for the end, at
// most so long, and returns the record of a run under way if it has not come by then.
func (s *Service) GetRun(ctx context.Context, owner, id string, wait time.Duration) (core.Record, error) {
	u := s.runs.find(owner, id)
	if u == nil {
		return s.keptRun(ctx, owner, id)
	}
	timer := time.NewTimer(min(max(wait, 0), s.settings.SyncLimit))
	defer timer.Stop()
	select {
	case <-u.done:
		return u.record, u.err
	case <-timer.C:
		if u.over() {
			return u.record, u.err
		}
		return s.soFar(ctx, u), nil
	case <-ctx.Done():
		return core.Record{}, cancelled(ctx)
	}
}

// keptRun is a run of the store's.
func (s *Service) keptRun(ctx context.Context, owner, id string) (core.Record, error) {
	run, err := s.ports.Runs.Get(ctx, owner, id)
	if err != nil {
		return core.Record{}, unknownRun(err)
	}
	switch run.State {
	case core.RunLost:
		return core.Record{}, errLostRun()
	case core.RunUnderWay:
		return core.Record{
			RunID: id, Status: core.StatusRunning, Session: run.Session, Backend: run.Backend,
			Total:    s.ports.Now().Sub(run.Started),
			Warnings: []string{"another server of this installation looks after the run; its output can be read once it has ended"},
		}, nil
	case core.RunEnded:
	}
	return run.Record, run.Failure.Err()
}

// errElsewhere is the error of acting on a run of another server.
func errElsewhere() error {
	return core.Errorf(core.ErrUnavailable, "another server of this installation looks after the run: only that one reaches its program").
		WithHint("wait for its end with get_run, or ask the server that began it")
}

func unknownRun(err error) error {
	if !errors.Is(err, core.ErrNotFound) {
		return err
	}
	return core.Errorf(core.ErrNotFound, "there is no such run, or its result is not kept any more").
		WithHint("list_runs tells which there are")
}

// Runs lists the owner's runs, the latest first, at most limit of them, that began before; a zero time is now.
func (s *Service) Runs(ctx context.Context, owner string, before time.Time, limit int) ([]core.Run, error) {
	all, err := s.ports.Runs.List(ctx, owner, before, limit)
	for i := range all {
		if u := s.runs.find(all[i].Owner, all[i].ID); u != nil { // the store may not know the latest
			run := u.snapshot()
			all[i] = session.Brief(run)
		}
	}
	return all, err
}

// ReadOutput returns a part of what a run has written to one stream, while it runs or after.
func (s *Service) ReadOutput(ctx context.Context, owner, id string, stream core.Stream, offset, limit int64) (core.OutputPiece, error) {
	if offset < 0 {
		return core.OutputPiece{}, core.Errorf(core.ErrInvalid, "offset is %d; it cannot be negative", offset)
	}
	if u := s.runs.find(owner, id); u != nil && !u.over() {
		piece, err := u.output(ctx, stream, offset, limit)
		piece.Kept = min(piece.Total, s.settings.Output.Spill)
		return piece, err
	}
	record, err := s.GetRun(ctx, owner, id, 0)
	if err != nil {
		return core.OutputPiece{}, err
	}
	return s.keptOutput(ctx, record, stream, offset, limit)
}

// keptOutput reads the output of a run that ended: the record's if it is whole, else the file's.
func (s *Service) keptOutput(ctx context.Context, record core.Record, stream core.Stream, offset, limit int64) (core.OutputPiece, error) {
	out := record.Stdout
	if stream == core.Stderr {
		out = record.Stderr
	}
	piece := core.OutputPiece{Offset: offset, Total: out.Total, Ended: record.Status != core.StatusRunning}
	if out.Cut() == 0 {
		whole := append(append([]byte{}, out.Head...), out.Tail...)
		from := min(offset, int64(len(whole)))
		piece.Data, piece.Kept = whole[from:min(from+limit, int64(len(whole)))], out.Total
		return piece, nil
	}
	file, kept, err := s.ports.Artifacts.Open(ctx, record.RunID, outputName(stream))
	if err != nil {
		return piece, core.Errorf(core.ErrNotFound, "the full %s of the run is not kept any more", stream)
	}
	defer func() { _ = file.Close() }() // it was only read
	piece.Kept = kept.Size
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return piece, err
	}
	piece.Data, err = io.ReadAll(io.LimitReader(file, limit))
	return piece, err
}

// stdinLimit is how long a program may take to have room for input: one that does not read must not hold its caller.
const stdinLimit = 10 * time.Second

// WriteStdin sends more input to a run that was started with its input open; end closes it. taken is how many bytes
// the program has taken or will find in its pipe. Fewer than there are is no error: it had no room for the others,
// which are to be sent again, with end.
func (s *Service) WriteStdin(ctx context.Context, owner, id string, data []byte, end bool) (taken int64, err error) {
	if int64(len(data)) > s.settings.MaxStdin {
		return 0, core.Errorf(core.ErrInvalid, "the input has %d bytes; at most %d are allowed at once", len(data), s.settings.MaxStdin)
	}
	u := s.runs.find(owner, id)
	if u == nil {
		if record, err := s.keptRun(ctx, owner, id); err != nil || record.Status == core.StatusRunning {
			return 0, cmp.Or(err, errElsewhere())
		}
		return 0, errReadsNothing()
	}
	feeding, cancel := context.WithTimeout(ctx, stdinLimit)
	defer cancel()
	select {
	case <-u.begun:
		taken, err = u.feed(feeding, data, end)
	case <-feeding.Done():
		err = core.Errorf(core.ErrUnavailable, "the program has not begun yet, so that it took none of its input").
			WithHint("send it again once get_run tells that the run has begun")
	}
	switch {
	case err == nil || ctx.Err() == nil && taken < int64(len(data)) && errors.Is(err, core.ErrTimeout):
		return taken, nil
	case ctx.Err() != nil:
		return taken, cancelled(ctx)
	}
	return taken, err
}

func errReadsNothing() error {
	return core.Errorf(core.ErrInvalid, "the run has ended and reads no input any more")
}

// arrivalPause is how often is looked whether a program that is on its way to its box has arrived.
const arrivalPause = 10 * time.Millisecond

// feed hands input to the program, which may be on its way to its box.
func (u *underway) feed(ctx context.Context, data []byte, end bool) (taken int64, err error) {
	for {
		guest, id := u.program()
		if guest == nil {
			return 0, errReadsNothing()
		}
		taken, err = guest.WriteStdin(ctx, id, data, end)
		if !errors.Is(err, core.ErrNotFound) {
			return taken, err
		}
		select {
		case <-time.After(arrivalPause):
		case <-u.done:
		case <-ctx.Done():
			return 0, core.Errorf(core.ErrUnavailable, "the program has not arrived in its box, so that it took none of its input")
		}
	}
}

// CancelRun ends a run, and returns its record.
func (s *Service) CancelRun(ctx context.Context, owner, id string) (core.Record, error) {
	u := s.runs.find(owner, id)
	if u == nil {
		record, err := s.keptRun(ctx, owner, id)
		if err == nil && record.Status == core.StatusRunning {
			return core.Record{}, errElsewhere()
		}
		return record, err
	}
	u.cancel()
	select {
	case <-u.done:
		return u.record, u.err
	case <-ctx.Done():
		return core.Record{}, cancelled(ctx)
	}
}
