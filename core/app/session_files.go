package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// fileLimit bounds how long a box may take to serve one call on its files.
const fileLimit = time.Minute

// uploadLimit bounds how long a file may come in: a gigabyte through a slow line.
const uploadLimit = 30 * time.Minute

// ListFiles lists what lies in a folder of a session's workspace and, if recursive, in the folders below it. The
// path "" or "." is the workspace. Like every call on files it does not wait for what runs in the session.
func (s *Service) ListFiles(ctx context.Context, r core.FileRequest, recursive bool) (core.FileListing, error) {
	dir := strings.TrimPrefix(strings.TrimSuffix(r.Path, "/"), "./")
	if dir == "." || r.Path == "" {
		dir = ""
	} else if err := core.CheckPath(dir); err != nil {
		return core.FileListing{}, err
	}
	var list core.FileListing
	var err error
	list.Session, err = s.onFiles(ctx, r, s.usedSession, fileLimit, func(ctx context.Context, guest execution.Guest) error {
		list.Entries, err = guest.ListFiles(ctx, dir, recursive)
		if list.Cut = errors.Is(err, core.ErrExhausted); list.Cut {
			return nil
		}
		return err
	})
	return list, err
}

// ReadFile returns at most limit bytes of a file in a session's workspace, from offset on. With picture, what is
// an image that clients show comes as one too, if it can be read as such.
func (s *Service) ReadFile(ctx context.Context, r core.FileRequest, offset, limit int64, picture bool) (core.FileContent, error) {
	if err := core.CheckPath(r.Path); err != nil {
		return core.FileContent{}, err
	}
	var content core.FileContent
	var err error
	content.Session, err = s.onFiles(ctx, r, s.usedSession, fileLimit, func(ctx context.Context, guest execution.Guest) error {
		if content.Piece, err = guest.ReadPiece(ctx, r.Path, offset, limit); err != nil {
			return err
		}
		content.MIMEType = core.MIMETypeOf(r.Path, content.Piece.Data)
		if !picture || !isShown(content.MIMEType) {
			return nil
		}
		preview, err := guest.Preview(ctx, r.Path, s.settings.InlineImage)
		if err == nil {
			content.Preview = &preview
		}
		if core.KindOf(err) == core.ErrUnavailable || ctx.Err() != nil {
			return err
		}
		return nil // its bytes say more than why they are no image
	})
	return content, err
}

// WriteFile writes a file into a session's workspace, with the folders that it is in: all of it or nothing. What
// is there under its name is replaced. The session is returned; a connection's own is made if it has none.
func (s *Service) WriteFile(ctx context.Context, r core.FileRequest, content []byte, progress func(core.Progress)) (session string, err error) {
	if err := core.CheckPath(r.Path); err != nil {
		return "", err
	}
	if most := s.settings.MaxInputBytes; int64(len(content)) > most {
		return "", core.Errorf(core.ErrInvalid, "the content has %d bytes; at most %d are allowed", len(content), most).
			WithHint("write it in parts and let a program join them")
	}
	find := func(ctx context.Context, r core.FileRequest) (core.Session, error) {
		return s.ownSession(ctx, r, progress)
	}
	return s.onFiles(ctx, r, find, fileLimit, func(ctx context.Context, guest execution.Guest) error {
		err := guest.WriteFile(ctx, r.Path, bytes.NewReader(content))
		if errors.Is(err, core.ErrUnavailable) { // the stream may have been lost; writing twice does no harm
			err = guest.WriteFile(ctx, r.Path, bytes.NewReader(content))
		}
		return err
	})
}

// UploadTarget returns the session whose workspace a file may be uploaded into, by its path.
func (s *Service) UploadTarget(ctx context.Context, r core.FileRequest) (session string, err error) {
	if err := core.CheckPath(r.Path); err != nil {
		return "", err
	}
	found, err := s.usedSession(ctx, r)
	return found.ID, err
}

// UploadFile is WriteFile for content that comes as a stream, of any size that the workspace has room for, into
// a session that is there.
func (s *Service) UploadFile(ctx context.Context, r core.FileRequest, content io.Reader) error {
	if err := core.CheckPath(r.Path); err != nil {
		return err
	}
	_, err := s.onFiles(ctx, r, s.usedSession, uploadLimit, func(ctx context.Context, guest execution.Guest) error {
		return guest.WriteFile(ctx, r.Path, content)
	})
	return err
}

// DeleteFile removes a file of a session's workspace, or a link but not what it leads to, and returns the session.
func (s *Service) DeleteFile(ctx context.Context, r core.FileRequest) (session string, err error) {
	if err := core.CheckPath(r.Path); err != nil {
		return "", err
	}
	return s.onFiles(ctx, r, s.usedSession, fileLimit, func(ctx context.Context, guest execution.Guest) error {
		return guest.RemoveFile(ctx, r.Path)
	})
}

// onFiles does something with the files of a session that find returns. It does not stand in the session's
// queue, and keeps it from being idle meanwhile.
func (s *Service) onFiles(
	ctx context.Context, r core.FileRequest, find func(context.Context, core.FileRequest) (core.Session, error), limit time.Duration,
	do func(context.Context, execution.Guest) error,
) (string, error) {
	ctx, release := s.whileOpen(ctx)
	defer release()
	session, err := find(ctx, r)
	if err == nil {
		err = s.inWorkspace(ctx, session, r.Path, limit, do)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, core.ErrCancelled) {
		err = cancelled(ctx)
	}
	if err != nil {
		return "", err
	}
	return session.ID, nil
}

func (s *Service) inWorkspace(
	ctx context.Context, session core.Session, path string, limit time.Duration, do func(context.Context, execution.Guest) error,
) error {
	on, err := s.place(session.Backend)
	if err != nil {
		return err
	}
	r := &run{Service: s, place: on}
	defer r.busy(session)()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	guest, err := r.reach(ctx, s.sessions.hold(session.ID), session)
	if err != nil {
		return err
	}
	if err = do(ctx, guest); err == nil {
		return nil
	}
	err = r.lossOf(ctx, session, err)
	if core.KindOf(err) == core.ErrNotFound {
		return core.Errorf(core.ErrNotFound, "there is nothing at %q in the sandbox", shortened(path)).
			WithHint("list_files tells what there is")
	}
	return err
}

// usedSession is the session with that id or name or, without either, the connection's own, which is not made:
// one that has just been made has no files.
func (s *Service) usedSession(ctx context.Context, r core.FileRequest) (core.Session, error) {
	if r.Sandbox != "" {
		return s.session(ctx, r.Tenant, r.Sandbox)
	}
	found, err := s.ports.Sessions.OfClient(ctx, r.Tenant, r.Client)
	if errors.Is(err, core.ErrNotFound) {
		return core.Session{}, core.Errorf(core.ErrNotFound, "this client has no sandbox of its own yet, and so no files").
			WithHint("write_file and run_python make it; sandbox_id names another one")
	}
	if err != nil {
		return core.Session{}, err
	}
	return s.session(ctx, r.Tenant, found.ID) // it may be over
}

// ownSession is usedSession, but for the connection's own, which is made if there is none. progress may be nil.
func (s *Service) ownSession(ctx context.Context, r core.FileRequest, progress func(core.Progress)) (core.Session, error) {
	if progress == nil {
		progress = func(core.Progress) {}
	}
	opening := &run{
		Service: s, job: job{tenant: r.Tenant, client: r.Client},
		progress: progress, clock: newStopwatch(s.ports.Now),
	}
	found, err := opening.findSession(s.inOneCall(ctx), r.Sandbox)
	if err != nil {
		return core.Session{}, err
	}
	return s.session(ctx, r.Tenant, found.ID)
}
