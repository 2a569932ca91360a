package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// setupID stands for an id in the token that makes the first administrator: it has the form of a key, but is none.
const setupID = "setup"

// setupLife is how long that token is good.
const setupLife = 24 * time.Hour

// Setup makes the first administrator, for whoever shows the token that the server printed when it started.
type Setup struct {
	Store interface {
		identity.Setup
		Append(ctx context.Context, r core.AuditRecord) error // identity.Audit's
	}
	Now func() time.Time
	Log *slog.Logger
}

// Offer makes the token, in place of any before, and returns it and until when it is good. Where there is an
// administrator it is "": then there is no token.
func (s Setup) Offer(ctx context.Context) (token string, until time.Time, err error) {
	token, hash := newText(setupID)
	until = s.Now().Add(setupLife)
	err = s.Store.Offer(ctx, hash, until)
	if errors.Is(err, core.ErrInvalid) {
		return "", time.Time{}, nil
	}
	return token, until, err
}

// Redeem makes an administrator with that name, and its first key, whose text it returns. The token is then good
// for nothing. One that is good for nothing already is core.ErrDenied.
func (s Setup) Redeem(ctx context.Context, token, name string) (admin core.User, key string, err error) {
	id, hash, ok := parseKey(token)
	if !ok || id != setupID {
		return core.User{}, "", s.refuse(identity.ErrNotRedeemed())
	}
	now := s.Now()
	admin = NewUser(name, core.RoleAdmin, now)
	first, text := NewKey(core.Key{Owner: admin.ID, Label: "first key", Created: now})
	if err := s.Store.Redeem(ctx, hash, now, admin, first); err != nil {
		return core.User{}, "", s.refuse(err)
	}
	done := core.AuditRecord{
		At: now, Principal: admin.ID, Credential: setupID, Action: "user.setup", Target: Shown(first.ID) + " of " + name, Outcome: "ok",
	}
	if err := s.Store.Append(ctx, done); err != nil { // the administrator is there all the same
		s.Log.Error("that the first administrator was made could not be appended to the audit log", "user", name, "error", err)
	}
	return admin, text, nil
}

// refuse has the log know: somebody may be guessing.
func (s Setup) refuse(err error) error {
	s.Log.Warn("the first administrator was not made", "error", err)
	return err
}

// userPrefix is before the random part of a user's id.
const userPrefix = "user-"

// IsUserID reports whether a principal's id is one of a user, and not of who has an issuer's tokens.
func IsUserID(id string) bool { return strings.HasPrefix(id, userPrefix) }

// NewUser gives a user an id that nobody has had.
func NewUser(name string, role core.Role, created time.Time) core.User {
	return core.User{ID: userPrefix + strings.ToLower(rand.Text()), Name: name, Role: role, Created: created}
}
