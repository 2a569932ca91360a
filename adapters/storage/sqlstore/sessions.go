package sqlstore

import (
	"context"
	"database/sql"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// sessions is a session.Store.
type sessions struct {
	db *Store
	sessionStatements
}

type sessionStatements struct {
	add, update, remove          statement
	byID, byName, byClient, read statement
	list, listAll                statement
}

func (p *preparing) sessions() sessionStatements {
	return sessionStatements{
		add:    p.writer(`INSERT INTO sessions (id, owner, name, client, lost, created, session) VALUES ($1, $2, $3, $4, $5, $6, $7)`),
		read:   p.locker(`SELECT session FROM sessions WHERE id = $1`),
		update: p.writer(`UPDATE sessions SET name = $1, client = $2, lost = $3, session = $4 WHERE id = $5`),
		remove: p.writer(`DELETE FROM sessions WHERE id = $1`),

		byID:     p.reader(`SELECT session FROM sessions WHERE id = $1 AND owner = $2`),
		byName:   p.reader(`SELECT session FROM sessions WHERE owner = $2 AND name = $1 AND name <> '' ORDER BY lost, created DESC, id DESC LIMIT 1`),
		byClient: p.reader(`SELECT session FROM sessions WHERE owner = $1 AND client = $2 AND client <> '' AND lost = 0`),
		list:     p.reader(`SELECT session FROM sessions WHERE owner = $1 ORDER BY created, id`),
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
	_, err = s.add.exec(ctx, name(added.ID), name(added.Owner), name(added.Name), name(added.Client), flag(added.Lost != ""), stamp(added.Created), text)
	return takenSession(added, err)
}

// takenSession is the error of a statement that may have met another session.
func takenSession(of core.Session, err error) error {
	if isCollision(err) {
		return session.Taken(of)
	}
	return err
}

// Get implements session.Store.
func (s *sessions) Get(ctx context.Context, owner, idOrName string) (core.Session, error) {
	for _, by := range []statement{s.byID, s.byName} {
		found, err := s.one(by.row(ctx, name(idOrName), name(owner)))
		if !isNone(err) {
			return found, err
		}
	}
	return core.Session{}, core.Errorf(core.ErrNotFound, "there is no sandbox %.100q", idOrName)
}

// OfClient implements session.Store.
func (s *sessions) OfClient(ctx context.Context, owner, client string) (core.Session, error) {
	found, err := s.one(s.byClient.row(ctx, name(owner), name(client)))
	if isNone(err) {
		return core.Session{}, core.Errorf(core.ErrNotFound, "the connection has no sandbox")
	}
	return found, err
}

// one returns the row's session, or sql.ErrNoRows.
func (s *sessions) one(row scanner) (core.Session, error) {
	var text []byte
	if err := row.Scan(&text); err != nil {
		return core.Session{}, err
	}
	return s.db.decodeSession(text)
}

// Update implements session.Store.
func (s *sessions) Update(ctx context.Context, id string, change func(*core.Session) error) error {
	return s.db.change(ctx, "", func(ctx context.Context, tx *sql.Tx) error {
		now, err := s.one(s.read.in(ctx, tx).row(ctx, name(id)))
		if isNone(err) {
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
		_, err = s.update.in(ctx, tx).exec(ctx, name(next.Name), name(next.Client), flag(next.Lost != ""), text, name(id))
		return takenSession(next, err)
	})
}

// List implements session.Store.
func (s *sessions) List(ctx context.Context, owner string) ([]core.Session, error) {
	if owner == "" {
		return documents(ctx, s.listAll, s.db.decodeSession)
	}
	return documents(ctx, s.list, s.db.decodeSession, name(owner))
}

// Remove implements session.Store.
func (s *sessions) Remove(ctx context.Context, id string) error {
	_, err := s.remove.exec(ctx, name(id))
	return err
}
