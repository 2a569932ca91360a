//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/containers/podman/v5/pkg/errorhandling"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

const restartHint = "see whether \"podman --remote ps\" answers; if not, restart the service (for example: systemctl --user restart podman.service)"

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
		e.forget()
		return core.Errorf(core.ErrUnavailable, "%s: Podman does not answer (the service at %s)", what, e.host).WithHint(restartHint)
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	case isBroken(err):
		e.forget()
		return core.Errorf(core.ErrUnavailable, "%s: Podman's service at %s does not answer", what, e.host).
			WithHint("start it (for example: systemctl --user start podman.socket); the next call looks for it again")
	}
	return core.Errorf(kindOf(err), "%s: %w", what, err)
}

// isBroken reports whether there is no connection to the service.
func isBroken(err error) bool {
	var request *url.Error
	var socket *net.OpError
	return errors.As(err, &request) || errors.As(err, &socket)
}

// statusOf is the service's HTTP status, or 0 if err is not the service's own.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*errorhandling.ErrorModel](err); ok {
		return answer.ResponseCode
	}
	return 0
}

func isNotFound(err error) bool { return statusOf(err) == http.StatusNotFound }

// isConflict recognises by its words too what older services answer as an internal error.
func isConflict(err error) bool {
	return statusOf(err) == http.StatusConflict || err != nil && strings.Contains(err.Error(), "container state improper")
}

func kindOf(err error) core.Kind {
	// The engine has no code for a full disk.
	if strings.Contains(err.Error(), "no space left on device") {
		return core.ErrExhausted
	}
	switch statusOf(err) {
	case http.StatusNotFound:
		return core.ErrNotFound
	case http.StatusBadRequest:
		return core.ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden:
		return core.ErrDenied
	case http.StatusNotImplemented:
		return core.ErrUnsupported
	case http.StatusConflict, http.StatusServiceUnavailable:
		return core.ErrUnavailable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return core.ErrTimeout
	}
	return core.ErrInternal
}

// isForeign recognises a program for another processor by the kernel's words.
func isForeign(err error) bool { return strings.Contains(err.Error(), "exec format error") }

// forget makes the next call look for the service anew.
func (e *engine) forget() {
	e.finding.Forget(e)
	e.api.Client.CloseIdleConnections()
}
