package core

import (
	"regexp"
	"slices"
	"time"
	"unicode/utf8"
)

// Key opens the server to whoever shows its secret, which only its bearer knows.
type Key struct {
	ID    string // [a-z0-9]; no secret: it is in lists and logs
	Owner string // a user's id
	Label string // for people: what it is for
	// Hash is the SHA-256 of the secret. That has 256 random bits, so that a slow hash would guard nothing more.
	Hash   [32]byte
	Scopes []Scope // nil: everything that its owner's role allows

	Created time.Time
	Expires time.Time // zero: never
	Used    time.Time // the last time, to the minute or so; zero: never
	Revoked time.Time // zero: it is not
	// ReplacedBy is the key that came in its place when it was rotated. Both are good until Expires.
	ReplacedBy string
}

// KeyState says in one word whether a key opens anything.
type KeyState string

// The states of a key.
const (
	KeyActive  KeyState = "active"
	KeyRotated KeyState = "rotated" // good for a while: another one has taken its place
	KeyExpired KeyState = "expired"
	KeyRevoked KeyState = "revoked"
)

// State is the key's at a time.
func (k Key) State(now time.Time) KeyState {
	switch {
	case !k.Revoked.IsZero():
		return KeyRevoked
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return KeyExpired
	case k.ReplacedBy != "":
		return KeyRotated
	}
	return KeyActive
}

// RotatedTo is the key as it is once another has taken its place: good until then, if it was good so long.
func (k Key) RotatedTo(next string, until time.Time) Key {
	k.ReplacedBy = next
	if k.Expires.IsZero() || until.Before(k.Expires) {
		k.Expires = until
	}
	return k
}

// maxLabel bounds a key's label, in bytes.
const maxLabel = 100

// CheckKey refuses a key that cannot be kept, as ErrInvalid.
func CheckKey(k Key) error {
	if !regexp.MustCompile(`^[a-z0-9]{1,32}$`).MatchString(k.ID) {
		return Errorf(ErrInvalid, "%.60q is not the id of a key", k.ID)
	}
	if err := CheckPrincipalID(k.Owner); err != nil {
		return err
	}
	if len(k.Label) > maxLabel || !utf8.ValidString(k.Label) || !IsPlainText([]byte(k.Label)) || slices.Contains([]byte(k.Label), '\n') {
		return Errorf(ErrInvalid, "the label of a key is one line of at most %d bytes; this one has %d", maxLabel, len(k.Label))
	}
	for _, s := range k.Scopes {
		if !slices.Contains(Scopes(), s) {
			return Errorf(ErrInvalid, "there is no scope %.40q", s).WithHint("the scopes are run, read and admin")
		}
	}
	return nil
}
