package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// sessions is a session.Store.
type sessions struct {
	db *DB
	sessionStatements
}

type sessionStatements struct {
	add, update, remove          *sql.Stmt
	byID, byName, byClient, read *sql.Stmt
	list, listAll                *sql.Stmt
}

func (p *preparing) sessions() sessionStatements {
	return sessionStatements{
		add:    p.writer(`INSERT INTO sessions (id, owner, name, client, lost, created, session) VALUES (?, ?, ?, ?, ?, ?, ?)`),
		read:   p.writer(`SELECT session FROM sessions WHERE id = ?`),
		update: p.writer(`UPDATE sessions SET name = ?, client = ?, lost = ?, session = ? WHERE id = ?`),
		remove: p.writer(`DELETE FROM sessions WHERE id = ?`),

		byID:     p.reader(`SELECT session FROM sessions WHERE id = ?2 AND owner = ?1`),
		byName:   p.reader(`SELECT session FROM sessions WHERE owner = ? AND name = ? AND name <> '' ORDER BY lost, created DESC, id DESC LIMIT 1`),
		byClient: p.reader(`SELECT session FROM sessions WHERE owner = ? AND client = ? AND client <> '' AND lost = 0`),
		list:     p.reader(`SELECT session FROM sessions WHERE owner = ? ORDER BY created, id`),
		listAll:  p.reader(`SELECT session FROM sessions ORDER BY created, id`),
	}
}

// Add implements session.Store.
func (s *sessions) Add(ctx context.Context, added core.Session) error {
	if err := session.CheckSession(added); err != nil {
		return err
	}
	text, err := encodeSession(added)
	if err != nil {
		return err
	}
	defer s.db.changed(len(text))
	_, err = s.add.ExecContext(ctx, added.ID, added.Owner, added.Name, added.Client, added.Lost != "", stamp(added.Created), text)
	return s.collision(ctx, added, err)
}

// collision is the error of a statement that may have met another session.
func (s *sessions) collision(ctx context.Context, of core.Session, err error) error {
	if isCollision(err) {
		return core.Errorf(core.ErrInvalid, "another sandbox has the id, the name %.100q, or belongs to the same connection", of.Name).
			WithHint("choose another name, or stop the other sandbox first")
	}
	return s.db.fault(ctx, err)
}

// Get implements session.Store.
func (s *sessions) Get(ctx context.Context, owner, idOrName string) (core.Session, error) {
	for _, by := range []*sql.Stmt{s.byID, s.byName} {
		found, err := s.one(ctx, by.QueryRowContext(ctx, owner, idOrName))
		if !errors.Is(err, sql.ErrNoRows) {
			return found, err
		}
	}
	return core.Session{}, core.Errorf(core.ErrNotFound, "there is no sandbox %.100q", idOrName)
}

// OfClient implements session.Store.
func (s *sessions) OfClient(ctx context.Context, owner, client string) (core.Session, error) {
	found, err := s.one(ctx, s.byClient.QueryRowContext(ctx, owner, client))
	if errors.Is(err, sql.ErrNoRows) {
		return core.Session{}, core.Errorf(core.ErrNotFound, "the connection has no sandbox")
	}
	return found, err
}

// one returns the row's session, or sql.ErrNoRows.
func (s *sessions) one(ctx context.Context, row *sql.Row) (core.Session, error) {
	var text []byte
	err := row.Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return core.Session{}, err
	}
	if err != nil {
		return core.Session{}, s.db.fault(ctx, err)
	}
	return s.db.decodeSession(text)
}

// Update implements session.Store.
func (s *sessions) Update(ctx context.Context, id string, change func(*core.Session) error) error {
	return s.db.change(ctx, func(tx *sql.Tx) error {
		now, err := s.one(ctx, tx.StmtContext(ctx, s.read).QueryRowContext(ctx, id))
		if errors.Is(err, sql.ErrNoRows) {
			return core.Errorf(core.ErrNotFound, "there is no sandbox %.100q", id)
		}
		if err != nil {
			return err
		}
		next := now
		if err := change(&next); err != nil {
			return err
		}
		next.ID, next.Owner, next.Created = now.ID, now.Owner, now.Created
		text, err := encodeSession(next)
		if err != nil {
			return err
		}
		_, err = tx.StmtContext(ctx, s.update).ExecContext(ctx, next.Name, next.Client, next.Lost != "", text, id)
		return s.collision(ctx, next, err)
	})
}

// List implements session.Store.
func (s *sessions) List(ctx context.Context, owner string) ([]core.Session, error) {
	if owner == "" {
		return collect(ctx, s.db, s.db.decodeSession, s.listAll)
	}
	return collect(ctx, s.db, s.db.decodeSession, s.list, owner)
}

// collect decodes the one column of all rows. A row that is damaged is left out, so that it costs only itself:
// whoever asks for it by its id is told.
func collect[T any](ctx context.Context, d *DB, decode func([]byte) (T, error), query *sql.Stmt, args ...any) ([]T, error) {
	rows, err := query.QueryContext(ctx, args...)
	if err != nil {
		return nil, d.fault(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var list []T
	for rows.Next() {
		var text sql.RawBytes
		if err := rows.Scan(&text); err != nil {
			return nil, d.fault(ctx, err)
		}
		if item, err := decode(text); err == nil {
			list = append(list, item)
		}
	}
	return list, d.fault(ctx, rows.Err())
}

// Remove implements session.Store.
func (s *sessions) Remove(ctx context.Context, id string) error {
	defer s.db.changed(0)
	_, err := s.remove.ExecContext(ctx, id)
	return s.db.fault(ctx, err)
}
