// Package daemon is what backends share whose engine is a daemon with an API, as Docker's and
// Podman's are: to find it, to be patient with one that hangs, to undo what a cancelled call
// left, to read an exec's streams. It speaks to no engine itself.
package daemon

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
	// ProbeTime bounds how long an endpoint's first answer takes.
	ProbeTime = 5 * time.Second
	// settleTime is how long a cancelled call waits for its own clean-up.
	settleTime = 2 * time.Second
)

// errSilent is the cause of a ctx that ended because the engine did not answer.
var errSilent = errors.New("the engine does not answer")

// Patient bounds a call to an engine; IsSilent tells afterwards whether that was what ended it.
func Patient(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, errSilent)
}

// Slow bounds a call that may take a busy engine a while.
func Slow(ctx context.Context) (context.Context, context.CancelFunc) {
	return Patient(ctx, SlowTime)
}

// IsSilent reports whether ctx, one of Patient's, ended because the engine did not answer.
func IsSilent(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errSilent) }

// Ended is the error of a ctx that is over: core.ErrTimeout or core.ErrCancelled.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.ErrTimeout, "it took too long")
	}
	return core.Errorf(core.ErrCancelled, "the caller cancelled")
}

// IsOurs reports whether err has a kind and a sentence already.
func IsOurs(err error) bool {
	var ours *core.Error
	return errors.As(err, &ours)
}

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
		return none, Ended(ctx)
	}
}
