package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// people is an identity.Store.
type people struct {
	db *Store
	userStatements
	keyStatements
	auditStatements
	usageStatements
}

type userStatements struct {
	addUser, readUser, readNamed, updateUser, removeUser, removeKeysOf statement
	hasAdmin, offer, readOffer, endOffer                               statement
	userByID, userByName, users                                        statement
}

const userColumns = `id, name, role, disabled, created`

func (p *preparing) users() userStatements {
	return userStatements{
		addUser:      p.writer(`INSERT INTO users (id, folded, name, role, disabled, created) VALUES ($1, $2, $3, $4, $5, $6)`),
		readUser:     p.writer(`SELECT ` + userColumns + ` FROM users WHERE id = $1`),
		readNamed:    p.writer(`SELECT ` + userColumns + ` FROM users WHERE folded = $1`),
		updateUser:   p.writer(`UPDATE users SET folded = $1, name = $2, role = $3, disabled = $4 WHERE id = $5`),
		removeUser:   p.writer(`DELETE FROM users WHERE id = $1`),
		removeKeysOf: p.writer(`DELETE FROM keys WHERE owner = $1`),

		hasAdmin: p.writer(`SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin')`),
		offer: p.writer(`INSERT INTO setup (one, hash, until) VALUES (1, $1, $2)
			ON CONFLICT (one) DO UPDATE SET hash = excluded.hash, until = excluded.until`),
		readOffer: p.writer(`SELECT EXISTS (SELECT 1 FROM setup WHERE hash = $1 AND until > $2)`),
		endOffer:  p.writer(`DELETE FROM setup`),

		userByID:   p.reader(`SELECT ` + userColumns + ` FROM users WHERE id = $1`),
		userByName: p.reader(`SELECT ` + userColumns + ` FROM users WHERE folded = $1`),
		users:      p.reader(`SELECT ` + userColumns + ` FROM users ORDER BY folded`),
	}
}

// change does f as one step. Changes of users, keys and the token are few, and look at more than they change: one
// goes on at a time.
func (s *people) change(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return s.db.change(ctx, "users and keys", f)
}

// user reads a row of userColumns, after what comes before them.
func (s *people) user(row scanner, before ...any) (u core.User, err error) {
	var created string
	err = row.Scan(append(before, &u.ID, &u.Name, &u.Role, &u.Disabled, &created)...)
	if err != nil {
		return u, err
	}
	u.Created, err = s.db.time(created)
	return u, err
}

// time reads a column of a time.
func (d *Store) time(column string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, column)
	if err != nil {
		return time.Time{}, d.on.Damaged(err)
	}
	return at, nil
}

// AddUser implements identity.Users.
func (s *people) AddUser(ctx context.Context, u core.User) error {
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return s.addUserIn(ctx, tx, u) })
}

func (s *people) addUserIn(ctx context.Context, tx *sql.Tx, u core.User) error {
	if err := core.CheckUser(u); err != nil {
		return err
	}
	there, err := s.user(s.readNamed.in(ctx, tx).row(ctx, name(core.FoldUserName(u.Name))))
	if err == nil {
		return identity.ErrUserTaken(there.Name)
	}
	if !isNone(err) {
		return err
	}
	_, err = s.addUser.in(ctx, tx).exec(ctx, name(u.ID), name(core.FoldUserName(u.Name)), name(u.Name), string(u.Role), flag(u.Disabled), stamp(u.Created))
	return takenUser(u, err)
}

// takenUser is the error of a statement that may have met another user.
func takenUser(u core.User, err error) error {
	if isCollision(err) {
		return identity.ErrUserTaken(u.Name)
	}
	return err
}

// User implements identity.Users.
func (s *people) User(ctx context.Context, idOrName string) (core.User, error) {
	u, err := s.user(s.userByID.row(ctx, name(idOrName)))
	if isNone(err) {
		u, err = s.user(s.userByName.row(ctx, name(core.FoldUserName(idOrName))))
	}
	if isNone(err) {
		err = identity.ErrNoUser(idOrName)
	}
	return u, err
}

// UpdateUser implements identity.Users.
func (s *people) UpdateUser(ctx context.Context, id string, change func(*core.User) error) error {
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now, err := s.user(s.readUser.in(ctx, tx).row(ctx, name(id)))
		if isNone(err) {
			return identity.ErrNoUser(id)
		}
		if err != nil {
			return err
		}
		next := now
		if err := change(&next); err != nil {
			return err
		}
		next.ID = id
		if err := core.CheckUser(next); err != nil {
			return err
		}
		_, err = s.updateUser.in(ctx, tx).exec(ctx, name(core.FoldUserName(next.Name)), name(next.Name), string(next.Role), flag(next.Disabled), name(id))
		return takenUser(next, err)
	})
}

// Users implements identity.Users.
func (s *people) Users(ctx context.Context) ([]core.User, error) {
	return list(ctx, s.users, func(row scanner) (core.User, error) { return s.user(row) })
}

// RemoveUser implements identity.Users.
func (s *people) RemoveUser(ctx context.Context, id string) error {
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, remove := range []statement{s.removeKeysOf, s.removeUser} {
			if _, err := remove.in(ctx, tx).exec(ctx, name(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Offer implements identity.Setup.
func (s *people) Offer(ctx context.Context, hash [32]byte, until time.Time) error {
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if has, err := s.holds(ctx, tx, s.hasAdmin); err != nil || has {
			return orElse(err, identity.ErrHasAdmin())
		}
		_, err := s.offer.in(ctx, tx).exec(ctx, hash[:], stamp(until))
		return err
	})
}

// holds asks a question.
func (s *people) holds(ctx context.Context, tx *sql.Tx, question statement, args ...any) (yes bool, err error) {
	err = question.in(ctx, tx).row(ctx, args...).Scan(&yes)
	return yes, err
}

// orElse is err or, if there is none, the other.
func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Redeem implements identity.Setup.
func (s *people) Redeem(ctx context.Context, hash [32]byte, now time.Time, admin core.User, key core.Key) error {
	return s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if has, err := s.holds(ctx, tx, s.hasAdmin); err != nil || has {
			return orElse(err, identity.ErrNotRedeemed())
		}
		if good, err := s.holds(ctx, tx, s.readOffer, hash[:], stamp(now)); err != nil || !good {
			return orElse(err, identity.ErrNotRedeemed())
		}
		if err := s.addUserIn(ctx, tx, admin); err != nil {
			return err
		}
		if err := s.addKeyIn(ctx, tx, key); err != nil {
			return err
		}
		_, err := s.endOffer.in(ctx, tx).exec(ctx)
		return err
	})
}
