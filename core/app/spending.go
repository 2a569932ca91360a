package app

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

func plain(n int64) string { return strconv.FormatInt(n, 10) }

// spending counts the processor time of each tenant in windows of time. A run reserves all that it may need, so that
// the sum never exceeds a quota, and gives back what it did not. What was spent is kept now and then, off the
// way of calls.
type spending struct {
	ports  Ports
	window time.Duration

	flushing sync.Mutex // one does it at a time

	mu      sync.Mutex
	all     map[string]*purse
	unsaved map[spell]time.Duration
	saving  map[spell]time.Duration // on the way to the store
	swept   time.Time               // the window in which old ones were forgotten last
}

// purse is a tenant's in the present window.
type purse struct {
	began    time.Time
	spent    time.Duration // as the store had it last, and since
	reserved time.Duration // by runs under way
	known    bool          // the store was asked
}

// spell is a window of a tenant.
type spell struct {
	owner string
	began time.Time
}

func newSpending(ports Ports, window time.Duration) *spending {
	if window <= 0 {
		window = 24 * time.Hour
	}
	return &spending{ports: ports, window: window, all: map[string]*purse{}, unsaved: map[spell]time.Duration{}}
}

// began is the beginning of the present window.
func (s *spending) began() time.Time { return s.ports.Now().UTC().Truncate(s.window) }

// purse is the owner's, in the present window. The caller holds the lock.
func (s *spending) purse(owner string) *purse {
	p, began := s.all[owner], s.began()
	if p == nil {
		p = &purse{began: began}
		s.all[owner] = p
	}
	if !p.began.Equal(began) {
		p.began, p.spent, p.known = began, 0, false
	}
	return p
}

// load asks the store, once in a window: other servers and earlier ones may have let the owner spend.
func (s *spending) load(ctx context.Context, owner string) error {
	s.mu.Lock()
	p := s.purse(owner)
	known, began := p.known, p.began
	s.mu.Unlock()
	if known {
		return nil
	}
	total, err := s.ports.Usage.Spend(ctx, owner, began, 0)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.purse(owner); !p.known && p.began.Equal(began) {
		p.known = true
		p.spent = total + s.unsaved[spell{owner, began}] + s.saving[spell{owner, began}] // rather twice than not at all
	}
	return nil
}

// reserve sets aside what a run may need, and returns what takes note of what it did. limit 0 is none.
func (s *spending) reserve(ctx context.Context, owner string, most, limit time.Duration) (spend func(time.Duration), err error) {
	if limit > 0 {
		if err := s.load(ctx, owner); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.purse(owner)
	if limit > 0 && p.spent+p.reserved+most > limit {
		return nil, s.refusal(p, most, limit)
	}
	p.reserved += most
	return func(took time.Duration) { s.settle(owner, most, took) }, nil
}

// settle gives back what was reserved, and counts what was used in the window in which that ended.
func (s *spending) settle(owner string, reserved, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.purse(owner)
	p.reserved -= reserved
	p.spent += took
	if took > 0 {
		s.unsaved[spell{owner, p.began}] += took
	}
}

// reservedRetry is when to ask once more if runs under way keep the rest of the quota: they rarely need all of it.
const reservedRetry = 5 * time.Second

// refusal says when there is some again.
func (s *spending) refusal(p *purse, most, limit time.Duration) error {
	g := gauge{quota: core.QuotaCPU, used: seconds(p.spent + p.reserved), bound: seconds(limit)}
	full := errFull(g, "or set aside for runs under way, and this one may need "+plain(seconds(most)))
	if p.spent+most <= limit {
		return full.WithHint("try again in %g seconds, or with a smaller timeout_seconds", reservedRetry.Seconds()).WithRetryAfter(reservedRetry)
	}
	after := p.began.Add(s.window).Sub(s.ports.Now())
	return full.WithHint("try again in %d seconds, or with a smaller timeout_seconds", seconds(after)).WithRetryAfter(after)
}

// spent is what the owner used in the present window, and the window's end.
func (s *spending) spent(ctx context.Context, owner string) (used time.Duration, end time.Time, err error) {
	if err := s.load(ctx, owner); err != nil {
		return 0, end, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.purse(owner)
	return p.spent, p.began.Add(s.window), nil
}

// flush keeps what was spent. What cannot be kept is tried again the next time.
func (s *spending) flush(ctx context.Context) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	saving := s.unsaved
	s.unsaved, s.saving = map[spell]time.Duration{}, saving
	s.mu.Unlock()
	for at, more := range saving {
		total, err := s.ports.Usage.Spend(ctx, at.owner, at.began, more)
		s.note(at, more, total, err)
	}
	s.forget(ctx)
}

// note learns from the store what other servers let the owner spend.
func (s *spending) note(at spell, more, total time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saving = without(s.saving, at)
	if err != nil {
		s.unsaved[at] += more
		s.ports.Log.Warn("the use of processors could not be kept; the next sweep tries again", "owner", at.owner, "error", err)
		return
	}
	if p := s.all[at.owner]; p != nil && p.began.Equal(at.began) {
		p.spent, p.known = total+s.unsaved[at], true
	}
}

// without is the map less a key; who reads the old one is not disturbed.
func without(all map[spell]time.Duration, at spell) map[spell]time.Duration {
	rest := maps.Clone(all)
	delete(rest, at)
	return rest
}

// keptWindows is how many windows before the present one are remembered.
const keptWindows = 30

// forget drops what is of old windows, once in each.
func (s *spending) forget(ctx context.Context) {
	began := s.began()
	s.mu.Lock()
	done := s.swept.Equal(began)
	s.swept = began
	for owner, p := range s.all {
		if p.began.Before(began) && p.reserved == 0 {
			delete(s.all, owner)
		}
	}
	s.mu.Unlock()
	if done {
		return
	}
	if err := s.ports.Usage.SweepSpending(ctx, began.Add(-keptWindows*s.window)); err != nil && ctx.Err() == nil {
		s.ports.Log.Warn("the use of processors in old times could not be forgotten", "error", err)
	}
}
