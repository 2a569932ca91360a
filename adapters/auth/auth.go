// Package auth tells who a credential stands for: a key of this server, or a token of an OpenID Connect issuer.
//
// It guards no route: transports ask it. What keys there are is in ports/identity; package auth alone knows how
// they are written, and shows a secret once, when it makes one.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// Credential is what a caller shows.
type Credential struct {
	Token      string // a key, or a token of an issuer
	RemoteAddr string // for the log; may be ""
}

// Options say what counts.
type Options struct {
	Keys   identity.Keys // nil: keys do not
	Issuer *Issuer       // nil: tokens do not
	Now    func() time.Time
	Log    *slog.Logger
}

// Authenticator tells who a credential stands for.
type Authenticator struct {
	options Options
	known   *cache
	uses    uses
}

// New makes one. KeepUses belongs to its life.
func New(o Options) *Authenticator { return &Authenticator{options: o, known: newCache()} }

// How long a credential counts that was found good. A key may be revoked by another process at any time; a token
// cannot be taken back, but its bearer's time may be over.
const (
	trustKey   = 2 * time.Second
	trustToken = 30 * time.Second
)

// refusalTime is what every refusal takes, so that its time does not tell how far a credential came.
const refusalTime = 5 * time.Millisecond

// maxToken bounds a credential, in bytes.
const maxToken = 16 << 10

// Authenticate returns the principal that the credential stands for. Whatever is wrong with a credential, it is the
// same core.ErrDenied; the log says what it was. core.ErrUnavailable, ErrTimeout and ErrCancelled mean that
// it could not be told.
func (a *Authenticator) Authenticate(ctx context.Context, c Credential) (core.Principal, error) {
	now := a.options.Now()
	// The whole credential is looked up, so that a wrong one is never quicker, whatever its id.
	sum := sha256.Sum256([]byte(c.Token))
	found, known := a.known.get(sum, now)
	if !known {
		inTime := time.NewTimer(refusalTime)
		defer inTime.Stop()
		var err error
		if found, err = a.verify(ctx, c.Token, now); err != nil {
			select {
			case <-inTime.C:
			case <-ctx.Done():
			}
			return core.Principal{}, a.refuse(ctx, c, err)
		}
		a.known.put(sum, found, now)
	}
	if found.key != "" {
		a.uses.note(found.key, now)
	}
	return found.principal, nil
}

// verify looks at a credential that is not known to be good.
func (a *Authenticator) verify(ctx context.Context, token string, now time.Time) (entry, error) {
	switch {
	case len(token) > maxToken:
		return entry{}, wrong("", "it is too long")
	case strings.HasPrefix(token, keyPrefix) && a.options.Keys != nil:
		return a.verifyKey(ctx, token, now)
	case strings.Count(token, ".") == 2 && a.options.Issuer != nil:
		return a.options.Issuer.verify(ctx, token, now)
	}
	return entry{}, wrong("", "it is of no kind that counts here")
}

// wrongError is what is wrong with a credential: for the log, never for its bearer.
type wrongError struct{ credential, why string }

func (e wrongError) Error() string { return e.why }

func wrong(credential, why string) error { return wrongError{credential, why} }

// refuse is the error for the bearer.
func (a *Authenticator) refuse(ctx context.Context, c Credential, err error) error {
	fault, isWrong := errors.AsType[wrongError](err)
	if !isWrong {
		return a.cannotTell(err)
	}
	a.options.Log.LogAttrs(ctx, slog.LevelInfo, "a credential was refused",
		slog.String("credential", fault.credential), slog.String("reason", fault.why), slog.String("from", c.RemoteAddr))
	return core.Errorf(core.ErrDenied, "the key or token is not valid").
		WithHint("ask the operator for a new one; the server's log says what is wrong with this one")
}

// cannotTell hides what is the operator's.
func (a *Authenticator) cannotTell(err error) error {
	if k := core.KindOf(err); k == core.ErrCancelled || k == core.ErrTimeout {
		return err
	}
	a.options.Log.Warn("a credential could not be checked", "error", err)
	return core.Errorf(core.ErrUnavailable, "credentials cannot be checked now").
		WithHint("try again in a moment").WithRetryAfter(retry)
}

// retry is when to ask once more, after a credential could not be checked.
const retry = 5 * time.Second
