package guest

import (
	"context"
	"errors"
	"io"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
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
	// The stream lives on its own: what is not committed when it is closed is removed.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stream, err := call(ctx, g.link, func(_ context.Context, client guestv1.GuestServiceClient) (guestv1.GuestService_WriteFileClient, error) {
		return client.WriteFile(inner)
	})
	if err != nil {
		return err
	}
	put := func(request *guestv1.WriteFileRequest) error {
		_, err := call(ctx, g.link, func(context.Context, guestv1.GuestServiceClient) (*guestv1.WriteFileResponse, error) {
			if err := stream.Send(request); err != nil {
				return nil, err
			}
			return stream.Recv()
		})
		return err
	}
	failed := writePieces(path, r, put)
	// The agent ends its side once it has committed or removed the file.
	_, err = call(ctx, g.link, func(context.Context, guestv1.GuestServiceClient) (*guestv1.WriteFileResponse, error) {
		if failed != nil {
			_ = stream.CloseSend()
		}
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	})
	if failed != nil {
		return failed
	}
	return err
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
