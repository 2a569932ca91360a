package core

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// When to ask once more is told by whoever knows, however often the error was wrapped.
func TestRetryAfter(t *testing.T) {
	full := Errorf(ErrExhausted, "full").WithRetryAfter(3 * time.Second)
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"none":        {nil, 0},
		"plain":       {errors.New("x"), 0},
		"says":        {full, 3 * time.Second},
		"keeps it":    {full.WithHint("wait"), 3 * time.Second},
		"wrapped":     {fmt.Errorf("a run: %w", full), 3 * time.Second},
		"in another":  {Errorf(ErrUnavailable, "a run: %w", full), 3 * time.Second},
		"outer knows": {Errorf(ErrUnavailable, "a run: %w", full).WithRetryAfter(time.Second), time.Second},
	} {
		if got := RetryAfterOf(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
