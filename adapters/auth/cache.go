package auth

import (
	"maps"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// entry is a credential that was found good.
type entry struct {
	principal core.Principal
	key       string // a key's id, to note its use; "" for a token
	until     time.Time
}

// maxEntries bounds the cache.
const maxEntries = 4096

// cache remembers good credentials by their SHA-256. Bad ones are never remembered: there are too many.
type cache struct {
	mu  sync.Mutex
	all map[[32]byte]entry
}

func newCache() *cache { return &cache{all: map[[32]byte]entry{}} }

func (c *cache) get(sum [32]byte, now time.Time) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.all[sum]
	return found, known && now.Before(found.until)
}

func (c *cache) put(sum [32]byte, e entry, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= maxEntries {
		maps.DeleteFunc(c.all, func(_ [32]byte, old entry) bool { return !now.Before(old.until) })
	}
	for sum := range c.all {
		if len(c.all) < maxEntries {
			break
		}
		delete(c.all, sum)
	}
	c.all[sum] = e
}
