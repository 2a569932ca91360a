// Package patience is how long a backend waits for its engine, and what becomes of a call whose
// caller does not wait that long. It speaks to no engine itself.
package patience

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

const (
	// QuickTime bounds what an engine does in a moment: to inspect, to list, to open a stream.
	QuickTime = 30 * time.Second
	// SlowTime bounds one Create or clean-up, whatever its caller's ctx says.
	SlowTime = 2 * time.Minute
	// settleTime is how long a cancelled call waits for its own clean-up.
	settleTime = 2 * time.Second
)

// errSilent is the cause of a ctx that ended because the engine did not answer.
var errSilent = errors.New("the engine does not answer")

// Bound bounds a call to an engine; IsSilent tells afterwards whether that was what ended it.
func Bound(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, errSilent)
}

// Slow bounds a call that may take a busy engine a while.
func Slow(ctx context.Context) (context.Context, context.CancelFunc) {
	return Bound(ctx, SlowTime)
}

// IsSilent reports whether ctx, one of Bound's or Slow's, ended because the engine did not answer.
func IsSilent(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errSilent) }

// Settle runs f to its end although ctx may end before, as a part of work: a request that was cut
// off leaves a container that nobody knows. What f makes too late is given to undo. Both get a
// ctx that outlives the caller's.
func Settle[T any](ctx context.Context, work *sync.WaitGroup, f func(context.Context) (T, error), undo func(context.Context, T)) (T, error) {
	type result struct {
		made T
		err  error
	}
	results, abandoned := make(chan result), make(chan struct{})
	work.Go(func() {
		engineCtx, cancel := Slow(context.WithoutCancel(ctx))
		defer cancel()
		made, err := f(engineCtx)
		select {
		case results <- result{made, err}:
		case <-abandoned:
			if err == nil {
				undo(engineCtx, made)
			}
		}
	})
	select {
	case r := <-results:
		return r.made, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-results:
		return r.made, r.err
	case <-time.After(settleTime):
		close(abandoned)
		var none T
		return none, core.ContextError(ctx)
	}
}
