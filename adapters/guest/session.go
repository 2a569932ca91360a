package guest

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

// attached is what is taken of a run of which it is not known what was asked for: the most that an agent keeps.
func attached() core.OutputLimits {
	return core.OutputLimits{Head: 640 << 10, Tail: 640 << 10, Spill: 1 << 30}
}

// Attach implements execution.Guest.
func (g *Guest) Attach(ctx context.Context, run string) (core.Exit, error) {
	if err := checkName(run); err != nil {
		return core.Exit{}, err
	}
	exit, err := g.attach(ctx, run)
	if err != nil {
		return core.Exit{}, err
	}
	return decodeExit(exit, attached()), nil
}

// Kill implements execution.Guest.
func (g *Guest) Kill(ctx context.Context, run string) error {
	if err := checkName(run); err != nil {
		return err
	}
	_, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.KillResponse, error) {
		return client.Kill(ctx, &guestv1.KillRequest{Id: run})
	})
	return err
}

// Output implements execution.Guest.
func (g *Guest) Output(ctx context.Context, run string, stream core.Stream, offset, limit int64) (core.OutputPiece, error) {
	if err := checkName(run); err != nil {
		return core.OutputPiece{}, err
	}
	if offset < 0 || limit <= 0 {
		return core.OutputPiece{}, core.Errorf(core.ErrInvalid, "output is read from an offset that is not negative, some bytes at a time")
	}
	limit = min(limit, chunk)
	sent, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.ReadOutputResponse, error) {
		return client.ReadOutput(ctx, &guestv1.ReadOutputRequest{Id: run, Stream: string(stream), Offset: offset, Length: limit})
	})
	if err != nil {
		return core.OutputPiece{}, err
	}
	return decodePiece(sent, offset, limit), nil
}

// WriteStdin implements execution.Guest.
func (g *Guest) WriteStdin(ctx context.Context, run string, data []byte, end bool) (taken int64, err error) {
	if err := checkName(run); err != nil {
		return 0, err
	}
	// What is on its way when ctx ends is waited for: else nobody would know whether it was taken.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWord, cancel) })()
	for {
		piece := data[:min(chunk, len(data))]
		last := end && len(piece) == len(data)
		sent, err := call(sending, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.WriteStdinResponse, error) {
			return client.WriteStdin(ctx, &guestv1.WriteStdinRequest{Id: run, Data: piece, End: last})
		})
		if err != nil {
			if sending.Err() != nil {
				err = core.ContextError(ctx)
			}
			return taken, err
		}
		n := clamp(sent.GetTaken(), int64(len(piece)))
		data, taken = data[n:], taken+n
		switch {
		case len(data) == 0:
			return taken, nil
		case n > 0 && ctx.Err() == nil:
			continue
		}
		select { // the agent has waited already, if it is an honest one
		case <-time.After(beat):
		case <-ctx.Done():
			return taken, core.ContextError(ctx)
		}
	}
}

// lastWord is how long an answer is waited for when nobody asks for more any more.
const lastWord = time.Second

// beat is the pause before a program is offered again what it had no room for.
const beat = 5 * time.Millisecond

// Variables implements execution.Guest.
func (g *Guest) Variables(ctx context.Context) ([]core.Variable, error) {
	sent, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.VariablesResponse, error) {
		return client.Variables(ctx, &guestv1.VariablesRequest{})
	})
	if err != nil {
		return nil, err
	}
	return decodeVariables(sent.GetVariables()), nil
}

// ListFiles implements execution.Guest.
func (g *Guest) ListFiles(ctx context.Context, dir string, recursive bool) ([]core.FileEntry, error) {
	sent, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.ListFilesResponse, error) {
		return client.ListFiles(ctx, &guestv1.ListFilesRequest{Dir: []byte(dir), Recursive: recursive})
	})
	if err != nil {
		return nil, err
	}
	files, dropped := decodeEntries(sent.GetFiles())
	if dropped > 0 || sent.GetCut() {
		return files, core.Errorf(core.ErrExhausted, "there are more than %d files, or some whose names are none", len(files)).
			WithHint("ask for a folder with fewer files")
	}
	return files, nil
}

// RemoveFile implements execution.Guest.
func (g *Guest) RemoveFile(ctx context.Context, path string) error {
	_, err := call(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.RemoveFileResponse, error) {
		return client.RemoveFile(ctx, &guestv1.RemoveFileRequest{Path: []byte(path)})
	})
	return err
}

// checkName refuses a run's id that could not be sent.
func checkName(run string) error {
	if run == "" || !utf8.ValidString(run) {
		return core.Errorf(core.ErrInvalid, "%q cannot be the id of a run", run)
	}
	return nil
}
