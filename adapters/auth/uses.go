package auth

import (
	"context"
	"sync"
	"time"
)

// uses are the keys that were used since that was kept last.
type uses struct {
	mu  sync.Mutex
	all map[string]time.Time
}

func (u *uses) note(key string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]time.Time{}
	}
	if at.After(u.all[key]) {
		u.all[key] = at
	}
}

func (u *uses) take() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.all
	u.all = nil
	return taken
}

// keepEvery is how often uses are kept, so that a request need not wait for the disk.
const keepEvery = time.Minute

// KeepUses keeps when keys were used, once a minute until ctx ends.
func (a *Authenticator) KeepUses(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			a.Flush(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Flush keeps when keys were used, now.
func (a *Authenticator) Flush(ctx context.Context) {
	used := a.uses.take()
	if len(used) == 0 {
		return
	}
	if err := a.options.Keys.Touch(ctx, used); err != nil {
		a.options.Log.Warn("when keys were used could not be kept; the next minute tries again", "error", err)
		for key, at := range used {
			a.uses.note(key, at)
		}
	}
}
