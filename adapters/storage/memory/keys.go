package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// AddKey implements identity.Keys.
func (s *Identity) AddKey(_ context.Context, k core.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkKey(k); err != nil {
		return err
	}
	if s.userAt(k.Owner) < 0 {
		return identity.ErrNoUser(k.Owner)
	}
	s.keys = append(s.keys, cloneKey(k))
	return nil
}

// checkKey refuses a new key that cannot be kept.
func (s *Identity) checkKey(k core.Key) error {
	if s.keyAt(k.ID) >= 0 {
		return identity.ErrKeyTaken(k.ID)
	}
	return core.CheckKey(k)
}

func (s *Identity) keyAt(id string) int {
	return slices.IndexFunc(s.keys, func(k core.Key) bool { return k.ID == id })
}

func cloneKey(k core.Key) core.Key {
	k.Scopes = slices.Clone(k.Scopes)
	return k
}

// Key implements identity.Keys.
func (s *Identity) Key(_ context.Context, id string) (core.Key, core.User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.keyAt(id)
	if at < 0 {
		return core.Key{}, core.User{}, identity.ErrNoKey(id)
	}
	return cloneKey(s.keys[at]), s.users[s.userAt(s.keys[at].Owner)], nil
}

// UpdateKey implements identity.Keys.
func (s *Identity) UpdateKey(_ context.Context, id string, change func(*core.Key) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.keyAt(id)
	if at < 0 {
		return identity.ErrNoKey(id)
	}
	now := s.keys[at]
	next := cloneKey(now)
	if err := change(&next); err != nil {
		return err
	}
	next.ID, next.Owner, next.Hash, next.Created = now.ID, now.Owner, now.Hash, now.Created
	if err := core.CheckKey(next); err != nil {
		return err
	}
	s.keys[at] = cloneKey(next)
	return nil
}

// ReplaceKey implements identity.Keys.
func (s *Identity) ReplaceKey(_ context.Context, old string, by core.Key, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.keyAt(old)
	if at < 0 {
		return identity.ErrNoKey(old)
	}
	if now := s.keys[at]; now.ReplacedBy != "" || !now.Revoked.IsZero() || now.Owner != by.Owner {
		return identity.ErrNotReplaced(old)
	}
	if err := s.checkKey(by); err != nil {
		return err
	}
	s.keys[at] = s.keys[at].RotatedTo(by.ID, until)
	s.keys = append(s.keys, cloneKey(by))
	return nil
}

// Keys implements identity.Keys.
func (s *Identity) Keys(_ context.Context, owner string) ([]core.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []core.Key
	for _, k := range s.keys {
		if owner == "" || k.Owner == owner {
			list = append(list, cloneKey(k))
		}
	}
	slices.SortFunc(list, func(a, b core.Key) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Touch implements identity.Keys.
func (s *Identity) Touch(_ context.Context, used map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.keys {
		if at := used[s.keys[i].ID]; at.After(s.keys[i].Used) {
			s.keys[i].Used = at
		}
	}
	return nil
}
