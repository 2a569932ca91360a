package app

import (
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// safely has a fault of ours end what it happened in, not the server: a panic becomes an error, and the log says
// where it was. doing completes "while it …".
func safely(log *slog.Logger, doing string, do func() error) (err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			log.Error("a panic was caught", "while", doing, "panic", trouble, "stack", string(debug.Stack()))
			err = core.Errorf(core.ErrInternal, "the server made a mistake while it %s", doing).WithHint("the server's log says more")
		}
	}()
	return do()
}

// crew is work in the background that somebody waits for in the end. Nothing that goes wrong in it ends the server.
// Unlike with a sync.WaitGroup, work may begin at any time, also while somebody waits for the end of all.
type crew struct {
	log *slog.Logger

	mu   sync.Mutex
	busy int
	over chan struct{} // closed when nobody works any more; nil while nobody waits for that
}

// do has something done in the background. What others wait for besides idle has to be guarded by itself.
func (c *crew) do(doing string, work func()) {
	c.join()
	go func() {
		defer c.leave()
		_ = safely(c.log, doing, func() error { // it is in the log
			work()
			return nil
		})
	}()
}

// join counts some work until leave is called.
func (c *crew) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy++
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy--; c.busy == 0 && c.over != nil {
		close(c.over)
		c.over = nil
	}
}

// idle is closed once nobody works, be it for a moment only.
func (c *crew) idle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := c.over
	if over == nil {
		over = make(chan struct{})
	}
	if c.busy == 0 {
		close(over)
	} else {
		c.over = over
	}
	return over
}
