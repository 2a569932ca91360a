package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/boxwright/boxwright/core"
)

// fail gives an error from outside a kind and a sentence that begins with what was attempted.
func fail(ctx context.Context, err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	switch {
	case err == nil:
		return nil
	case isOurs(err):
		return err
	case errors.Is(context.Cause(ctx), errSilent):
		return core.Errorf(core.ErrUnavailable, "%s: runsc does not come to an end", what).
			WithHint("see whether the machine is overloaded; boxes that hang are removed by their next removal")
	case ctx.Err() != nil:
		return ended(ctx)
	}
	return core.Errorf(kindOf(err), "%s: %w", what, err)
}

func isOurs(err error) bool {
	var ours *core.Error
	return errors.As(err, &ours)
}

func kindOf(err error) core.Kind {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EAGAIN):
		return core.ErrExhausted
	case errors.Is(err, fs.ErrPermission):
		return core.ErrDenied
	case errors.Is(err, context.DeadlineExceeded):
		return core.ErrTimeout
	}
	return core.ErrInternal
}

// ended is the error of a ctx that is over.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.ErrTimeout, "it took too long")
	}
	return core.Errorf(core.ErrCancelled, "the caller cancelled")
}

func noBox() error { return core.Errorf(core.ErrNotFound, "there is no such box") }
