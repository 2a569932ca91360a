// Package wire carries core's errors over gRPC and ttrpc, which share the status model.
//
// It is the one table between kinds and codes. The plugin SDK, the agent and the agent's host use
// it; nothing else reads a status.
package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/boxwright/boxwright/core"
)

const (
	domain  = "boxwright"
	hintKey = "hint"
	// maxText bounds what a peer can put into our errors.
	maxText = 16 << 10
)

// codeOf gives each kind its code. The kind itself travels as the ErrorInfo's reason and is the
// truth; the code is for peers that know only gRPC.
func codeOf(k core.Kind) codes.Code {
	switch k {
	case core.ErrInvalid:
		return codes.InvalidArgument
	case core.ErrNotFound:
		return codes.NotFound
	case core.ErrDenied:
		return codes.PermissionDenied
	case core.ErrUnsupported:
		return codes.Unimplemented
	case core.ErrUnavailable:
		return codes.Unavailable
	case core.ErrExhausted:
		return codes.ResourceExhausted
	case core.ErrTimeout:
		return codes.DeadlineExceeded
	case core.ErrCancelled:
		return codes.Canceled
	case core.ErrDependency:
		return codes.FailedPrecondition
	case core.ErrSessionExpired:
		return codes.Aborted
	case core.ErrInternal:
		return codes.Internal
	}
	return codes.Internal
}

// ToStatus turns an error into one that gRPC and ttrpc send.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(string(kind)), Domain: domain}
	if hint := core.HintOf(err); hint != "" {
		info.Metadata = map[string]string{hintKey: hint}
	}
	st, detailErr := status.New(codeOf(kind), clip(core.MessageOf(err))).WithDetails(info)
	if detailErr != nil {
		return status.Error(codeOf(kind), clip(core.MessageOf(err)))
	}
	return st.Err()
}

// FromStatus turns what gRPC or ttrpc returned into an error of a kind. A call whose ctx ended
// fails with ctx's own reason, whatever the peer made of it.
func FromStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return core.ContextError(ctx)
	}
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return &core.Error{
				Kind:    kindByReason(info.GetReason()),
				Message: clip(st.Message()),
				Hint:    clip(info.GetMetadata()[hintKey]),
			}
		}
	}
	return &core.Error{Kind: kindByCode(st.Code()), Message: clip(st.Message())}
}

func kindOf(err error) core.Kind {
	if kind := core.KindOf(err); kind != core.ErrInternal {
		return kind
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return core.ErrTimeout
	case errors.Is(err, context.Canceled):
		return core.ErrCancelled
	}
	return core.ErrInternal
}

func kindByReason(reason string) core.Kind {
	for _, k := range core.Kinds() {
		if strings.EqualFold(string(k), reason) {
			return k
		}
	}
	return core.ErrInternal
}

// kindByCode serves peers that send no ErrorInfo: gRPC itself when a connection breaks, and
// plugins in languages whose authors left it out.
func kindByCode(code codes.Code) core.Kind {
	for _, k := range core.Kinds() {
		if codeOf(k) == code {
			return k
		}
	}
	return core.ErrInternal
}

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
