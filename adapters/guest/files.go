package guest

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/containerd/ttrpc"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// ReadFile implements execution.Guest.
func (g *Guest) ReadFile(ctx context.Context, path string, w io.Writer, limit int64) (int64, error) {
	total, more, err := copyPieces(w, limit, func(offset, length int64) ([]byte, bool, error) {
		piece, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.ReadFileResponse, error) {
			return client.ReadFile(ctx, &guestv1.ReadFileRequest{Path: []byte(path), Offset: offset, Length: length})
		})
		return piece.GetData(), piece.GetEof(), err
	})
	if err == nil && more {
		err = core.Errorf(core.ErrExhausted, "the file %q is longer than %d bytes", path, limit)
	}
	return total, err
}

// ReadPiece implements execution.Guest.
func (g *Guest) ReadPiece(ctx context.Context, path string, offset, limit int64) (core.FilePiece, error) {
	if offset < 0 || limit <= 0 {
		return core.FilePiece{}, core.Errorf(core.ErrInvalid, "a file is read from an offset that is not negative, some bytes at a time")
	}
	limit = min(limit, chunk)
	sent, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.ReadFileResponse, error) {
		return client.ReadFile(ctx, &guestv1.ReadFileRequest{Path: []byte(path), Offset: offset, Length: limit})
	})
	if err != nil {
		return core.FilePiece{}, err
	}
	return decodeFilePiece(sent, offset, limit), nil
}

// copyPieces copies at most limit bytes to w; more says that there are others.
func copyPieces(w io.Writer, limit int64, read func(offset, length int64) ([]byte, bool, error)) (total int64, more bool, err error) {
	for {
		// One byte more than wanted tells whether there is more.
		want := min(chunk, limit-total+1)
		data, eof, err := read(total, want)
		if err != nil {
			return total, false, err
		}
		if int64(len(data)) > want {
			data = data[:want]
		}
		if over := total + int64(len(data)) - limit; over > 0 {
			more, data = true, data[:int64(len(data))-over]
		}
		n, err := w.Write(data)
		total += int64(n)
		if err != nil {
			return total, more, core.Errorf(core.ErrInternal, "what was read from the box could not be kept: %w", err)
		}
		if eof || more || len(data) == 0 {
			return total, more, nil
		}
	}
}

// WriteFile implements execution.Guest.
func (g *Guest) WriteFile(ctx context.Context, path string, r io.Reader) error {
	client, err := g.link.get(ctx)
	if err != nil {
		return err
	}
	u := &upload{link: g.link, client: client}
	failed := writePieces(path, r, func(request *guestv1.WriteFileRequest) error { return u.put(ctx, request) })
	if err := u.end(ctx, failed != nil); failed == nil {
		return err
	}
	return failed
}

// upload is the stream of one file. It outlives its caller's ctx, so that the agent learns that the rest of
// the file does not come: what is not committed when the stream is closed is removed.
type upload struct {
	link   *link
	client *ttrpc.Client

	mu     sync.Mutex // held while an answer is awaited, maybe by a call that its caller has given up
	stream guestv1.GuestService_WriteFileClient
	ended  bool
}

// put sends a request and waits for its answer. The first opens the stream.
func (u *upload) put(ctx context.Context, request *guestv1.WriteFileRequest) error {
	_, err := on(ctx, u.link, u.client, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.WriteFileResponse, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if err := u.open(ctx, client); err != nil {
			return nil, err
		}
		if err := u.stream.Send(request); err != nil {
			return nil, err
		}
		answer, err := u.stream.Recv()
		if err != nil {
			u.stream, u.ended = nil, true // an error is the last that comes: there is no end to wait for
		}
		return answer, err
	})
	return unreachable(err)
}

// open needs the lock.
func (u *upload) open(ctx context.Context, client guestv1.GuestServiceClient) (err error) {
	switch {
	case u.ended:
		return wire.ToStatus(core.Errorf(core.ErrCancelled, "the upload has been given up"))
	case u.stream == nil:
		u.stream, err = client.WriteFile(context.WithoutCancel(ctx))
	}
	return err
}

// end waits for the agent to end its side, which it does once it has committed or removed the file.
func (u *upload) end(ctx context.Context, failed bool) error {
	_, err := on(ctx, u.link, u.client, func(context.Context, guestv1.GuestServiceClient) (*guestv1.WriteFileResponse, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.ended = true
		if u.stream == nil {
			return nil, nil //nolint:nilnil // there is nothing to wait for
		}
		if failed {
			_ = u.stream.CloseSend()
		}
		_, err := u.stream.Recv()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	})
	return unreachable(err)
}

// writePieces sends a file, each piece once the one before has arrived. A small file is one request.
func writePieces(path string, r io.Reader, put func(*guestv1.WriteFileRequest) error) error {
	request := &guestv1.WriteFileRequest{Path: []byte(path)}
	for {
		data := make([]byte, chunk)
		n, err := io.ReadFull(r, data)
		request.Data = data[:n]
		request.Commit = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !request.Commit {
			return core.Errorf(core.ErrInternal, "the file to be written cannot be read: %w", err)
		}
		if err := put(request); err != nil || request.Commit {
			return err
		}
		request = &guestv1.WriteFileRequest{}
	}
}
