package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// fail gives an engine's error a kind and a sentence that begins with what was attempted. A
// connection that broke, or on which nothing comes, is looked for anew at the next call.
func (e *engine) fail(ctx context.Context, err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	switch {
	case err == nil:
		return nil
	case core.HasKind(err):
		return err
	case patience.IsSilent(ctx):
		e.finding.Forget(e)
		return core.Errorf(core.ErrUnavailable, "%s: Docker does not answer (the engine at %s)", what, e.host).
			WithHint("see whether \"docker ps\" answers; if not, restart it (for example: sudo systemctl restart docker)")
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	case client.IsErrConnectionFailed(err):
		e.finding.Forget(e)
		return core.Errorf(core.ErrUnavailable, "%s: the Docker engine at %s does not answer", what, e.host).
			WithHint("start it (for example: sudo systemctl start docker); the next call looks for it again")
	}
	if isMoment(err) {
		return core.Errorf(core.ErrUnavailable, "%s: %w", what, err).WithHint("try again")
	}
	return core.Errorf(kindOf(err), "%s: %w", what, err)
}

// isMoment recognises what the engine meets now and then while it makes a box's first layer; the next try does not.
func isMoment(err error) bool {
	return strings.Contains(err.Error(), "symlink /proc/mounts ") && strings.Contains(err.Error(), "no such file or directory")
}

func kindOf(err error) core.Kind {
	switch {
	case isFull(err):
		return core.ErrExhausted
	case cerrdefs.IsNotFound(err):
		return core.ErrNotFound
	case cerrdefs.IsInvalidArgument(err):
		return core.ErrInvalid
	case cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err):
		return core.ErrDenied
	case cerrdefs.IsNotImplemented(err):
		return core.ErrUnsupported
	case cerrdefs.IsConflict(err), cerrdefs.IsUnavailable(err):
		return core.ErrUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return core.ErrTimeout
	}
	return core.ErrInternal
}

// isFull recognises a full disk by the kernel's words: the engine has no code for it.
func isFull(err error) bool { return strings.Contains(err.Error(), "no space left on device") }
