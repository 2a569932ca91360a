package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

type keyStatements struct {
	addKey, readKey, updateKey, touchKey, hasUser *sql.Stmt
	keyAndUser, keys, keysOfAll                   *sql.Stmt
}

func (p *preparing) keys() keyStatements {
	return keyStatements{
		addKey:    p.writer(`INSERT INTO keys (id, owner, created, hash, used, key) VALUES (?, ?, ?, ?, ?, ?)`),
		readKey:   p.writer(`SELECT key, hash, used FROM keys WHERE id = ?`),
		updateKey: p.writer(`UPDATE keys SET used = ?, key = ? WHERE id = ?`),
		touchKey:  p.writer(`UPDATE keys SET used = ?1 WHERE id = ?2 AND (used IS NULL OR used < ?1)`),
		hasUser:   p.writer(`SELECT EXISTS (SELECT 1 FROM users WHERE id = ?)`),

		keyAndUser: p.reader(`SELECT key, hash, used, users.id, name, role, disabled, users.created
			FROM keys JOIN users ON users.id = keys.owner WHERE keys.id = ?`),
		keys:      p.reader(`SELECT key, hash, used FROM keys WHERE owner = ? ORDER BY created, id`),
		keysOfAll: p.reader(`SELECT key, hash, used FROM keys ORDER BY created, id`),
	}
}

// keyRow is a row of keys.
type keyRow struct {
	document, hash []byte
	used           sql.NullString
}

func (r *keyRow) columns() []any { return []any{&r.document, &r.hash, &r.used} }

func encodeKey(k core.Key) (string, error) {
	encoded, err := json.Marshal(storedKey{
		ID: text(k.ID), Owner: text(k.Owner), Label: text(k.Label), Scopes: k.Scopes, Created: k.Created.UTC(),
		Expires: k.Expires.UTC(), Revoked: k.Revoked.UTC(), ReplacedBy: text(k.ReplacedBy),
	})
	return string(encoded), unstorable(err)
}

func (d *DB) decodeKey(r keyRow) (core.Key, error) {
	var s storedKey
	if err := json.Unmarshal(r.document, &s); err != nil {
		return core.Key{}, d.damaged(err)
	}
	k := core.Key{
		ID: string(s.ID), Owner: string(s.Owner), Label: string(s.Label), Scopes: s.Scopes, Created: s.Created,
		Expires: s.Expires, Revoked: s.Revoked, ReplacedBy: string(s.ReplacedBy),
	}
	if copy(k.Hash[:], r.hash) != len(k.Hash) {
		return core.Key{}, d.damaged(errors.New("the hash of a key is cut"))
	}
	var err error
	if r.used.Valid {
		k.Used, err = d.time(r.used.String)
	}
	return k, err
}

// whenUsed is the column of a key's use.
func whenUsed(k core.Key) any {
	if k.Used.IsZero() {
		return nil
	}
	return stamp(k.Used)
}

// AddKey implements identity.Keys.
func (s *people) AddKey(ctx context.Context, k core.Key) error {
	return s.db.change(ctx, func(tx *sql.Tx) error { return s.addKeyIn(ctx, tx, k) })
}

func (s *people) addKeyIn(ctx context.Context, tx *sql.Tx, k core.Key) error {
	if err := core.CheckKey(k); err != nil {
		return err
	}
	if has, err := s.holds(ctx, tx, s.hasUser, k.Owner); err != nil || !has {
		return orElse(err, identity.ErrNoUser(k.Owner))
	}
	document, err := encodeKey(k)
	if err != nil {
		return err
	}
	_, err = tx.StmtContext(ctx, s.addKey).ExecContext(ctx, k.ID, k.Owner, stamp(k.Created), k.Hash[:], whenUsed(k), document)
	if isCollision(err) {
		return identity.ErrKeyTaken(k.ID)
	}
	return s.db.fault(ctx, err)
}

// Key implements identity.Keys.
func (s *people) Key(ctx context.Context, id string) (core.Key, core.User, error) {
	var row keyRow
	u, err := s.user(ctx, s.keyAndUser.QueryRowContext(ctx, id), row.columns()...)
	if errors.Is(err, sql.ErrNoRows) {
		err = identity.ErrNoKey(id)
	}
	if err != nil {
		return core.Key{}, core.User{}, err
	}
	k, err := s.db.decodeKey(row)
	return k, u, err
}

// UpdateKey implements identity.Keys.
func (s *people) UpdateKey(ctx context.Context, id string, change func(*core.Key) error) error {
	return s.db.change(ctx, func(tx *sql.Tx) error { return s.updateKeyIn(ctx, tx, id, change) })
}

func (s *people) updateKeyIn(ctx context.Context, tx *sql.Tx, id string, change func(*core.Key) error) error {
	now, err := s.key(ctx, tx.StmtContext(ctx, s.readKey).QueryRowContext(ctx, id))
	if errors.Is(err, sql.ErrNoRows) {
		return identity.ErrNoKey(id)
	}
	if err != nil {
		return err
	}
	next := now
	if err := change(&next); err != nil {
		return err
	}
	next.ID, next.Owner, next.Hash, next.Created = now.ID, now.Owner, now.Hash, now.Created
	if err := core.CheckKey(next); err != nil {
		return err
	}
	document, err := encodeKey(next)
	if err != nil {
		return err
	}
	_, err = tx.StmtContext(ctx, s.updateKey).ExecContext(ctx, whenUsed(next), document, id)
	return s.db.fault(ctx, err)
}

// key reads a row, or returns sql.ErrNoRows.
func (s *people) key(ctx context.Context, from scanner) (core.Key, error) {
	var row keyRow
	err := from.Scan(row.columns()...)
	if errors.Is(err, sql.ErrNoRows) {
		return core.Key{}, err
	}
	if err != nil {
		return core.Key{}, s.db.fault(ctx, err)
	}
	return s.db.decodeKey(row)
}

// ReplaceKey implements identity.Keys.
func (s *people) ReplaceKey(ctx context.Context, old string, by core.Key, until time.Time) error {
	return s.db.change(ctx, func(tx *sql.Tx) error {
		err := s.updateKeyIn(ctx, tx, old, func(k *core.Key) error {
			if k.ReplacedBy != "" || !k.Revoked.IsZero() || k.Owner != by.Owner {
				return identity.ErrNotReplaced(old)
			}
			*k = k.RotatedTo(by.ID, until)
			return nil
		})
		if err != nil {
			return err
		}
		return s.addKeyIn(ctx, tx, by)
	})
}

// Keys implements identity.Keys.
func (s *people) Keys(ctx context.Context, owner string) ([]core.Key, error) {
	read := func(row scanner) (core.Key, error) { return s.key(ctx, row) }
	if owner == "" {
		return rowsOf(ctx, s.db, read, s.keysOfAll)
	}
	return rowsOf(ctx, s.db, read, s.keys, owner)
}

// Touch implements identity.Keys.
func (s *people) Touch(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return s.db.change(ctx, func(tx *sql.Tx) error {
		touch := tx.StmtContext(ctx, s.touchKey)
		for id, at := range used {
			if _, err := touch.ExecContext(ctx, stamp(at), id); err != nil {
				return s.db.fault(ctx, err)
			}
		}
		return nil
	})
}
