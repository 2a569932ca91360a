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
type crew struct {
	sync.WaitGroup
	log *slog.Logger
}

// do has something done in the background. What others wait for besides Wait has to be guarded by itself.
func (c *crew) do(doing string, work func()) {
	c.Go(func() {
		_ = safely(c.log, doing, func() error { // it is in the log
			work()
			return nil
		})
	})
}
