package sqlstore

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
	addKey, readKey, updateKey, touchKey, hasUser statement
	keyAndUser, keys, keysOfAll                   statement
}

func (p *preparing) keys() keyStatements {
	return keyStatements{
		addKey:    p.writer(`INSERT INTO keys (id, owner, created, hash, used, key) VALUES ($1, $2, $3, $4, $5, $6)`),
		readKey:   p.writer(`SELECT key, hash, used FROM keys WHERE id = $1`),
		updateKey: p.writer(`UPDATE keys SET used = $1, key = $2 WHERE id = $3`),
		touchKey:  p.writer(`UPDATE keys SET used = $1 WHERE id = $2 AND (used IS NULL OR used < $1)`),
		hasUser:   p.writer(`SELECT EXISTS (SELECT 1 FROM users WHERE id = $1)`),

		keyAndUser: p.reader(`SELECT key, hash, used, users.id, name, role, disabled, users.created
			FROM keys JOIN users ON users.id = keys.owner WHERE keys.id = $1`),
		keys:      p.reader(`SELECT key, hash, used FROM keys WHERE owner = $1 ORDER BY created, id`),
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

func (d *Store) decodeKey(r keyRow) (core.Key, error) {
	var s storedKey
	if err := json.Unmarshal(r.document, &s); err != nil {
		return core.Key{}, d.on.Damaged(err)
	}
	k := core.Key{
		ID: string(s.ID), Owner: string(s.Owner), Label: string(s.Label), Scopes: s.Scopes, Created: s.Created,
		Expires: s.Expires, Revoked: s.Revoked, ReplacedBy: string(s.ReplacedBy),
	}
	if copy(k.Hash[:], r.hash) != len(k.Hash) {
		return core.Key{}, d.on.Damaged(errors.New("the hash of a key is cut"))
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
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return s.addKeyIn(ctx, tx, k) })
}

func (s *people) addKeyIn(ctx context.Context, tx *sql.Tx, k core.Key) error {
	if err := core.CheckKey(k); err != nil {
		return err
	}
	if has, err := s.holds(ctx, tx, s.hasUser, name(k.Owner)); err != nil || !has {
		return orElse(err, identity.ErrNoUser(k.Owner))
	}
	document, err := encodeKey(k)
	if err != nil {
		return err
	}
	_, err = s.addKey.in(ctx, tx).exec(ctx, name(k.ID), name(k.Owner), stamp(k.Created), k.Hash[:], whenUsed(k), document)
	if isCollision(err) {
		return identity.ErrKeyTaken(k.ID)
	}
	return err
}

// Key implements identity.Keys.
func (s *people) Key(ctx context.Context, id string) (core.Key, core.User, error) {
	var row keyRow
	u, err := s.user(s.keyAndUser.row(ctx, name(id)), row.columns()...)
	if isNone(err) {
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
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return s.updateKeyIn(ctx, tx, id, change) })
}

func (s *people) updateKeyIn(ctx context.Context, tx *sql.Tx, id string, change func(*core.Key) error) error {
	now, err := s.key(s.readKey.in(ctx, tx).row(ctx, name(id)))
	if isNone(err) {
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
	_, err = s.updateKey.in(ctx, tx).exec(ctx, whenUsed(next), document, name(id))
	return err
}

// key reads a row, or returns sql.ErrNoRows.
func (s *people) key(from scanner) (core.Key, error) {
	var row keyRow
	if err := from.Scan(row.columns()...); err != nil {
		return core.Key{}, err
	}
	return s.db.decodeKey(row)
}

// ReplaceKey implements identity.Keys.
func (s *people) ReplaceKey(ctx context.Context, old string, by core.Key, until time.Time) error {
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
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
	if owner == "" {
		return list(ctx, s.keysOfAll, s.key)
	}
	return list(ctx, s.keys, s.key, name(owner))
}

// Touch implements identity.Keys.
func (s *people) Touch(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		touch := s.touchKey.in(ctx, tx)
		for id, at := range used {
			if _, err := touch.exec(ctx, stamp(at), name(id)); err != nil {
				return err
			}
		}
		return nil
	})
}
