package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// Identity is an identity.Store. Its zero value is empty and ready.
type Identity struct {
	mu       sync.Mutex
	users    []core.User
	keys     []core.Key
	offer    offer
	records  []core.AuditRecord // the earliest first
	spent    map[window]time.Duration
	holdings []core.Holding
}

// offer is the token of identity.Setup; none if it has no time.
type offer struct {
	hash  [32]byte
	until time.Time
}

type window struct {
	owner string
	began int64 // Unix time, in nanoseconds
}

// NewIdentity returns an empty store.
func NewIdentity() *Identity { return &Identity{} }

// AddUser implements identity.Users.
func (s *Identity) AddUser(_ context.Context, u core.User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUser(u, -1); err != nil {
		return err
	}
	s.users = append(s.users, u)
	return nil
}

// checkUser refuses what cannot stand at that place, or at none.
func (s *Identity) checkUser(u core.User, at int) error {
	if err := core.CheckUser(u); err != nil {
		return err
	}
	for i, other := range s.users {
		if i != at && (other.ID == u.ID || core.SameUserName(other.Name, u.Name)) {
			return identity.ErrUserTaken(other.Name)
		}
	}
	return nil
}

func (s *Identity) userAt(id string) int {
	return slices.IndexFunc(s.users, func(u core.User) bool { return u.ID == id })
}

// User implements identity.Users.
func (s *Identity) User(_ context.Context, idOrName string) (core.User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.userAt(idOrName)
	if at < 0 {
		at = slices.IndexFunc(s.users, func(u core.User) bool { return core.SameUserName(u.Name, idOrName) })
	}
	if at < 0 {
		return core.User{}, identity.ErrNoUser(idOrName)
	}
	return s.users[at], nil
}

// UpdateUser implements identity.Users.
func (s *Identity) UpdateUser(_ context.Context, id string, change func(*core.User) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.userAt(id)
	if at < 0 {
		return identity.ErrNoUser(id)
	}
	next := s.users[at]
	if err := change(&next); err != nil {
		return err
	}
	next.ID, next.Created = id, s.users[at].Created
	if err := s.checkUser(next, at); err != nil {
		return err
	}
	s.users[at] = next
	return nil
}

// Users implements identity.Users.
func (s *Identity) Users(context.Context) ([]core.User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(slices.Values(s.users), func(a, b core.User) int {
		return strings.Compare(core.FoldUserName(a.Name), core.FoldUserName(b.Name))
	}), nil
}

// RemoveUser implements identity.Users.
func (s *Identity) RemoveUser(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = slices.DeleteFunc(s.users, func(u core.User) bool { return u.ID == id })
	s.keys = slices.DeleteFunc(s.keys, func(k core.Key) bool { return k.Owner == id })
	return nil
}

// Offer implements identity.Setup.
func (s *Identity) Offer(_ context.Context, hash [32]byte, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasAdmin() {
		return identity.ErrHasAdmin()
	}
	s.offer = offer{hash, until}
	return nil
}

func (s *Identity) hasAdmin() bool {
	return slices.ContainsFunc(s.users, func(u core.User) bool { return u.Role == core.RoleAdmin })
}

// Redeem implements identity.Setup.
func (s *Identity) Redeem(_ context.Context, hash [32]byte, now time.Time, admin core.User, key core.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasAdmin() || s.offer.hash != hash || !now.Before(s.offer.until) {
		return identity.ErrNotRedeemed()
	}
	if err := cmp.Or(s.checkUser(admin, -1), s.checkKey(key)); err != nil {
		return err
	}
	s.offer = offer{}
	s.users, s.keys = append(s.users, admin), append(s.keys, cloneKey(key))
	return nil
}
