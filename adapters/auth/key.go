package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// A key is written bxw_ID_SECRET_CRC. Scanners find it by its prefix, and know by the checksum that it is
// one: the CRC-32 of all before it, as 8 hexadecimal digits. The secret has 256 random bits, in base32.
const (
	keyPrefix    = "bxw_"
	idLength     = 12
	maxID        = 32
	secretBytes  = 32
	secretLength = 52
)

// Shown is what of a key may be seen by everybody.
func Shown(id string) string { return keyPrefix + id }

// NewKey makes a key, and its text, which nobody but the bearer is to keep. It fills in ID and Hash.
func NewKey(k core.Key) (made core.Key, text string) {
	k.ID = strings.ToLower(rand.Text()[:idLength])
	text, k.Hash = newText(k.ID)
	return k, text
}

// newText makes a secret, and the text and the hash for it.
func newText(id string) (text string, hash [32]byte) {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // it never fails
	encoded := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret[:]))
	text = keyPrefix + id + "_" + encoded
	return text + "_" + checksum(text), sha256.Sum256([]byte(encoded))
}

func checksum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// parseKey returns the id and the hash of the secret; ok is false for what is no key, such as one with a typo.
func parseKey(text string) (id string, hash [32]byte, ok bool) {
	body, sum := cutLast(text)
	if sum == "" || checksum(body) != sum {
		return "", hash, false
	}
	front, secret := cutLast(body)
	id, ok = strings.CutPrefix(front, keyPrefix)
	if !ok || id == "" || len(id) > maxID || len(secret) != secretLength || strings.ContainsFunc(id+secret, isStrange) {
		return "", hash, false
	}
	return id, sha256.Sum256([]byte(secret)), true
}

// cutLast cuts at the last "_".
func cutLast(text string) (before, after string) {
	at := strings.LastIndexByte(text, '_')
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}

func isStrange(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }

// verifyKey compares before it looks at anything else.
func (a *Authenticator) verifyKey(ctx context.Context, text string, now time.Time) (entry, error) {
	id, hash, ok := parseKey(text)
	if !ok {
		return entry{}, wrong("", "it is not a whole key")
	}
	k, u, err := a.options.Keys.Key(ctx, id)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return entry{}, err
	}
	same := subtle.ConstantTimeCompare(hash[:], k.Hash[:]) == 1
	switch state := k.State(now); {
	case err != nil:
		return entry{}, wrong(id, "there is no key with this id")
	case !same:
		return entry{}, wrong(id, "the secret is another one")
	case state == core.KeyExpired || state == core.KeyRevoked:
		return entry{}, wrong(id, "the key is "+string(state))
	case u.Disabled:
		return entry{}, wrong(id, "its user is disabled")
	}
	e := entry{key: id, until: now.Add(trustKey), principal: core.Principal{
		ID: u.ID, Name: u.Name, IsUser: true, Admin: u.Role == core.RoleAdmin, Credential: id, Scopes: k.Scopes,
	}}
	if !k.Expires.IsZero() && k.Expires.Before(e.until) {
		e.until = k.Expires
	}
	return e, nil
}
