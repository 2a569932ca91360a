package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// fail gives an error from outside a kind and a sentence that begins with what was attempted.
func fail(ctx context.Context, err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	switch {
	case err == nil:
		return nil
	case core.HasKind(err):
		return err
	case patience.IsSilent(ctx):
		return core.Errorf(core.ErrUnavailable, "%s: runsc does not come to an end", what).
			WithHint("see whether the machine is overloaded; boxes that hang are removed by their next removal")
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	}
	return core.Errorf(kindOf(err), "%s: %w", what, err)
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

func noBox() error { return core.Errorf(core.ErrNotFound, "there is no such box") }
