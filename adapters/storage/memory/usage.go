package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// maxRecords bounds the audit log in memory; the earliest records go first.
const maxRecords = 10_000

// Append implements identity.Audit.
func (s *Identity) Append(_ context.Context, r core.AuditRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := slices.BinarySearchFunc(s.records, r, func(have, added core.AuditRecord) int {
		return cmp.Or(have.At.Compare(added.At), -1)
	})
	s.records = slices.Insert(s.records, at, r)
	s.records = s.records[max(0, len(s.records)-maxRecords):]
	return nil
}

// Records implements identity.Audit.
func (s *Identity) Records(_ context.Context, principal string, before time.Time, limit int) ([]core.AuditRecord, error) {
	if limit < 1 {
		return nil, identity.ErrPage(limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []core.AuditRecord
	for _, r := range slices.Backward(s.records) {
		if (principal == "" || r.Principal == principal) && (before.IsZero() || r.At.Before(before)) && len(list) < limit {
			list = append(list, r)
		}
	}
	return list, nil
}

// SweepRecords implements identity.Audit.
func (s *Identity) SweepRecords(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.records)
	s.records = slices.DeleteFunc(s.records, func(r core.AuditRecord) bool { return r.At.Before(before) })
	return had - len(s.records), nil
}

// Spend implements identity.Usage.
func (s *Identity) Spend(_ context.Context, owner string, began time.Time, more time.Duration) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spent == nil {
		s.spent = map[window]time.Duration{}
	}
	at := window{owner, began.UnixNano()}
	if more != 0 {
		s.spent[at] += more
	}
	return s.spent[at], nil
}

// SweepSpending implements identity.Usage.
func (s *Identity) SweepSpending(_ context.Context, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.spent, func(w window, _ time.Duration) bool { return w.began < before.UnixNano() })
	return nil
}

// Hold implements identity.Usage.
func (s *Identity) Hold(_ context.Context, h core.Holding, most int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.holdingAt(h.Run)
	if at >= 0 && s.holdings[at].Owner != h.Owner {
		return identity.ErrHeld(h.Run)
	}
	var used int64
	for _, other := range s.holdings {
		if other.Owner == h.Owner {
			used += other.Bytes
		}
	}
	if h.Bytes > 0 && most > 0 && used+h.Bytes > most {
		return identity.ErrFull(used, h.Bytes, most)
	}
	if at < 0 {
		s.holdings = append(s.holdings, core.Holding{Run: h.Run, Owner: h.Owner, Since: h.Since})
		at = len(s.holdings) - 1
	}
	s.holdings[at].Bytes = max(0, s.holdings[at].Bytes+h.Bytes)
	return nil
}

func (s *Identity) holdingAt(run string) int {
	return slices.IndexFunc(s.holdings, func(h core.Holding) bool { return h.Run == run })
}

// Holding implements identity.Usage.
func (s *Identity) Holding(_ context.Context, run string) (core.Holding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.holdingAt(run)
	if at < 0 {
		return core.Holding{}, identity.ErrNoHolding(run)
	}
	return s.holdings[at], nil
}

// Holdings implements identity.Usage.
func (s *Identity) Holdings(_ context.Context, owner string) ([]core.Holding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.holdings), func(h core.Holding) bool { return owner != "" && h.Owner != owner })
	slices.SortFunc(list, func(a, b core.Holding) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Run, b.Run))
	})
	return list, nil
}

// Release implements identity.Usage.
func (s *Identity) Release(_ context.Context, run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdings = slices.DeleteFunc(s.holdings, func(h core.Holding) bool { return h.Run == run })
	return nil
}
