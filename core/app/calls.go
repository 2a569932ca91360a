package app

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// calls knows when each tenant with such a quota called in the last minute.
type calls struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string][]time.Time // the earliest first
}

// callWindow is the time in which a tenant may call so often.
const callWindow = time.Minute

// take counts a call, unless that makes more than limit in any minute; 0 is no limit.
func (c *calls) take(owner string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := c.recent(owner, now)
	if used := int64(len(recent)); used >= limit {
		after := recent[used-limit].Add(callWindow).Sub(now)
		return errFull(gauge{quota: core.QuotaCalls, used: used, bound: limit}, "").
			WithHint("try again in %d seconds", seconds(after)).WithRetryAfter(after)
	}
	if len(recent) == 0 { // now and then is often enough
		maps.DeleteFunc(c.all, func(_ string, list []time.Time) bool { return isOver(list[len(list)-1], now) })
	}
	c.all[owner] = append(recent, now)
	return nil
}

func isOver(at, now time.Time) bool { return !at.Add(callWindow).After(now) }

// recent are the owner's calls of the last minute. The caller holds the lock.
func (c *calls) recent(owner string, now time.Time) []time.Time {
	list := c.all[owner]
	from, _ := slices.BinarySearchFunc(list, now, func(at, now time.Time) int {
		if isOver(at, now) {
			return -1
		}
		return 1
	})
	return list[from:]
}

// meter is how many there were in the last minute, and when the earliest of them no longer counts.
func (c *calls) meter(owner string, limit int64) core.Meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := c.recent(owner, c.now())
	meter := core.Meter{Quota: core.QuotaCalls, Used: int64(len(recent)), Limit: limit}
	if len(recent) > 0 {
		meter.Free = recent[0].Add(callWindow)
	}
	return meter
}
