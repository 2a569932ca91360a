package core

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestContextError(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if err := ContextError(cancelled); KindOf(err) != ErrCancelled {
		t.Errorf("cancelled: %v", err)
	}
	if err := ContextError(late); KindOf(err) != ErrTimeout {
		t.Errorf("late: %v", err)
	}
}

func TestHasKind(t *testing.T) {
	for _, err := range []error{Errorf(ErrInvalid, "x"), fmt.Errorf("about it: %w", Errorf(ErrInvalid, "x"))} {
		if !HasKind(err) {
			t.Errorf("%v has none", err)
		}
	}
	for _, err := range []error{nil, errors.New("x"), ErrInvalid} {
		if HasKind(err) {
			t.Errorf("%v has one", err)
		}
	}
}

func TestPullPolicyValidate(t *testing.T) {
	for policy, want := range map[PullPolicy]Kind{PullMissing: "", PullAlways: "", PullNever: "", "sometimes": ErrInvalid, "Always": ErrInvalid} {
		if err := policy.Validate(); KindOf(err) != want {
			t.Errorf("%q: got %v", policy, err)
		}
	}
}
