package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// people is an identity.Store.
type people struct {
	db *DB
	userStatements
	keyStatements
	auditStatements
	usageStatements
}

type userStatements struct {
	addUser, readUser, updateUser, removeUser, removeKeysOf *sql.Stmt
	hasAdmin, offer, readOffer, endOffer                    *sql.Stmt
	userByID, userByName, users                             *sql.Stmt
}

const userColumns = `id, name, role, disabled, created`

func (p *preparing) users() userStatements {
	return userStatements{
		addUser:      p.writer(`INSERT INTO users (id, folded, name, role, disabled, created) VALUES (?, ?, ?, ?, ?, ?)`),
		readUser:     p.writer(`SELECT ` + userColumns + ` FROM users WHERE id = ?`),
		updateUser:   p.writer(`UPDATE users SET folded = ?, name = ?, role = ?, disabled = ? WHERE id = ?`),
		removeUser:   p.writer(`DELETE FROM users WHERE id = ?`),
		removeKeysOf: p.writer(`DELETE FROM keys WHERE owner = ?`),

		hasAdmin:  p.writer(`SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin')`),
		offer:     p.writer(`INSERT OR REPLACE INTO setup (one, hash, until) VALUES (1, ?, ?)`),
		readOffer: p.writer(`SELECT EXISTS (SELECT 1 FROM setup WHERE hash = ? AND until > ?)`),
		endOffer:  p.writer(`DELETE FROM setup`),

		userByID:   p.reader(`SELECT ` + userColumns + ` FROM users WHERE id = ?`),
		userByName: p.reader(`SELECT ` + userColumns + ` FROM users WHERE folded = ?`),
		users:      p.reader(`SELECT ` + userColumns + ` FROM users ORDER BY folded`),
	}
}

// scanner is a row.
type scanner interface{ Scan(into ...any) error }

// user reads a row of userColumns, after what comes before them.
func (s *people) user(ctx context.Context, row scanner, before ...any) (u core.User, err error) {
	var created string
	err = row.Scan(append(before, &u.ID, &u.Name, &u.Role, &u.Disabled, &created)...)
	if errors.Is(err, sql.ErrNoRows) {
		return u, err
	}
	if err != nil {
		return u, s.db.fault(ctx, err)
	}
	u.Created, err = s.db.time(created)
	return u, err
}

// time reads a column of a time.
func (d *DB) time(column string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, column)
	if err != nil {
		return time.Time{}, d.damaged(err)
	}
	return at, nil
}

// AddUser implements identity.Users.
func (s *people) AddUser(ctx context.Context, u core.User) error {
	return s.db.change(ctx, func(tx *sql.Tx) error { return s.addUserIn(ctx, tx, u) })
}

func (s *people) addUserIn(ctx context.Context, tx *sql.Tx, u core.User) error {
	if err := core.CheckUser(u); err != nil {
		return err
	}
	_, err := tx.StmtContext(ctx, s.addUser).ExecContext(ctx, u.ID, core.FoldUserName(u.Name), u.Name, u.Role, u.Disabled, stamp(u.Created))
	return s.takenUser(ctx, u, err)
}

// takenUser is the error of a statement that may have met another user.
func (s *people) takenUser(ctx context.Context, u core.User, err error) error {
	if isCollision(err) {
		return identity.ErrUserTaken(u.Name)
	}
	return s.db.fault(ctx, err)
}

// User implements identity.Users.
func (s *people) User(ctx context.Context, idOrName string) (core.User, error) {
	u, err := s.user(ctx, s.userByID.QueryRowContext(ctx, idOrName))
	if errors.Is(err, sql.ErrNoRows) {
		u, err = s.user(ctx, s.userByName.QueryRowContext(ctx, core.FoldUserName(idOrName)))
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = identity.ErrNoUser(idOrName)
	}
	return u, err
}

// UpdateUser implements identity.Users.
func (s *people) UpdateUser(ctx context.Context, id string, change func(*core.User) error) error {
	return s.db.change(ctx, func(tx *sql.Tx) error {
		now, err := s.user(ctx, tx.StmtContext(ctx, s.readUser).QueryRowContext(ctx, id))
		if errors.Is(err, sql.ErrNoRows) {
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
		_, err = tx.StmtContext(ctx, s.updateUser).ExecContext(ctx, core.FoldUserName(next.Name), next.Name, next.Role, next.Disabled, id)
		return s.takenUser(ctx, next, err)
	})
}

// Users implements identity.Users.
func (s *people) Users(ctx context.Context) ([]core.User, error) {
	return rowsOf(ctx, s.db, func(row scanner) (core.User, error) { return s.user(ctx, row) }, s.users)
}

// rowsOf reads all rows.
func rowsOf[T any](ctx context.Context, d *DB, read func(scanner) (T, error), query *sql.Stmt, args ...any) ([]T, error) {
	rows, err := query.QueryContext(ctx, args...)
	if err != nil {
		return nil, d.fault(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var list []T
	for rows.Next() {
		item, err := read(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, d.fault(ctx, rows.Err())
}

// RemoveUser implements identity.Users.
func (s *people) RemoveUser(ctx context.Context, id string) error {
	return s.db.change(ctx, func(tx *sql.Tx) error {
		for _, remove := range []*sql.Stmt{s.removeKeysOf, s.removeUser} {
			if _, err := tx.StmtContext(ctx, remove).ExecContext(ctx, id); err != nil {
				return s.db.fault(ctx, err)
			}
		}
		return nil
	})
}

// Offer implements identity.Setup.
func (s *people) Offer(ctx context.Context, hash [32]byte, until time.Time) error {
	return s.db.change(ctx, func(tx *sql.Tx) error {
		if has, err := s.holds(ctx, tx, s.hasAdmin); err != nil || has {
			return orElse(err, identity.ErrHasAdmin())
		}
		_, err := tx.StmtContext(ctx, s.offer).ExecContext(ctx, hash[:], stamp(until))
		return s.db.fault(ctx, err)
	})
}

// holds asks a question.
func (s *people) holds(ctx context.Context, tx *sql.Tx, question *sql.Stmt, args ...any) (yes bool, err error) {
	err = tx.StmtContext(ctx, question).QueryRowContext(ctx, args...).Scan(&yes)
	return yes, s.db.fault(ctx, err)
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
	return s.db.change(ctx, func(tx *sql.Tx) error {
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
		_, err := tx.StmtContext(ctx, s.endOffer).ExecContext(ctx)
		return s.db.fault(ctx, err)
	})
}
