package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/proto/wire"
)

func TestEveryKindSurvives(t *testing.T) {
	seen := map[codes.Code]core.Kind{}
	for _, kind := range core.Kinds() {
		sent := fmt.Errorf("outer: %w", core.Errorf(kind, "the sentence").WithHint("do this"))
		st := wire.ToStatus(sent)
		if other, dup := seen[status.Code(st)]; dup {
			t.Errorf("%s and %s share a code", kind, other)
		}
		seen[status.Code(st)] = kind
		got := wire.FromStatus(t.Context(), st)
		if core.KindOf(got) != kind || core.HintOf(got) != "do this" || !strings.Contains(got.Error(), "the sentence") {
			t.Errorf("%s came back as %s: %v", kind, core.KindOf(got), got)
		}
		if bare := wire.FromStatus(t.Context(), status.Error(status.Code(st), "x")); core.KindOf(bare) != kind {
			t.Errorf("%s by code alone came back as %s", kind, core.KindOf(bare))
		}
	}
}

func TestPlainErrors(t *testing.T) {
	for err, want := range map[error]core.Kind{
		context.DeadlineExceeded: core.ErrTimeout,
		context.Canceled:         core.ErrCancelled,
		errors.New("x"):          core.ErrInternal,
	} {
		if got := core.KindOf(wire.FromStatus(t.Context(), wire.ToStatus(err))); got != want {
			t.Errorf("%v came back as %s, want %s", err, got, want)
		}
	}
	if wire.ToStatus(nil) != nil || wire.FromStatus(t.Context(), nil) != nil {
		t.Error("nil did not stay nil")
	}
}

func TestEndedContextWins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := wire.FromStatus(ctx, status.Error(codes.Unavailable, "broken pipe"))
	if core.KindOf(got) != core.ErrCancelled {
		t.Errorf("got %v, want cancelled", got)
	}
}

func TestHostileTextIsClipped(t *testing.T) {
	got := wire.FromStatus(t.Context(), status.Error(codes.Internal, strings.Repeat("ж", 1<<20)))
	if len(got.Error()) > 32<<10 {
		t.Errorf("%d bytes of a peer's text reached an error", len(got.Error()))
	}
}
