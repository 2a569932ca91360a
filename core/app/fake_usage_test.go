package app_test

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

// usageStore is an identity.Usage, and an audit log.
type usageStore struct {
	mu       sync.Mutex
	spent    map[string]time.Duration // by owner and window
	holdings []core.Holding
	records  []core.AuditRecord
	fail     error
}

func (s *usageStore) Spend(_ context.Context, owner string, window time.Time, more time.Duration) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spent == nil {
		s.spent = map[string]time.Duration{}
	}
	at := owner + window.String()
	if s.fail == nil {
		s.spent[at] += more
	}
	return s.spent[at], s.fail
}

func (s *usageStore) SweepSpending(context.Context, time.Time) error { return s.fail }

func (s *usageStore) at(run string) int {
	return slices.IndexFunc(s.holdings, func(h core.Holding) bool { return h.Run == run })
}

func (s *usageStore) Hold(_ context.Context, h core.Holding, most int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := int64(0)
	for _, other := range s.holdings {
		if other.Owner == h.Owner {
			used += other.Bytes
		}
	}
	at := s.at(h.Run)
	switch {
	case s.fail != nil:
		return s.fail
	case at >= 0 && s.holdings[at].Owner != h.Owner:
		return identity.ErrHeld(h.Run)
	case h.Bytes > 0 && most > 0 && used+h.Bytes > most:
		return identity.ErrFull(used, h.Bytes, most)
	case at >= 0:
		s.holdings[at].Bytes += h.Bytes
	default:
		s.holdings = append(s.holdings, h)
	}
	return nil
}

func (s *usageStore) Holding(_ context.Context, run string) (core.Holding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(run); at >= 0 {
		return s.holdings[at], s.fail
	}
	return core.Holding{}, cmp.Or(s.fail, identity.ErrNoHolding(run))
}

func (s *usageStore) Holdings(_ context.Context, owner string) ([]core.Holding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.holdings), func(h core.Holding) bool { return owner != "" && h.Owner != owner })
	slices.SortFunc(list, func(a, b core.Holding) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Run, b.Run))
	})
	return list, s.fail
}

func (s *usageStore) Release(_ context.Context, run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdings = slices.DeleteFunc(s.holdings, func(h core.Holding) bool { return h.Run == run })
	return s.fail
}

func (s *usageStore) Append(_ context.Context, r core.AuditRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.records = append(s.records, r)
	}
	return s.fail
}

func (s *usageStore) Records(context.Context, string, time.Time, int) ([]core.AuditRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records), nil
}

func (s *usageStore) SweepRecords(context.Context, time.Time) (int, error) { return 0, nil }
