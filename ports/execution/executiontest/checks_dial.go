package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/boxwright/boxwright/core"
)

func dialChecks() []Check {
	return []Check{
		{"dial/again", "Dial may be called again", checkDialAgain},
		{"dial/together", "Dial may be called at the same time; the streams are independent", checkDialTogether},
		{"dial/ctx", "ctx bounds the opening only", checkDialCtx},
		{"dial/unknown", "An unknown box is core.ErrNotFound", checkDialUnknown},
		{"dial/stopped", "A stopped box is core.ErrUnavailable", checkDialStopped},
		{"dial/close", "A stream that was closed ends for its reader", checkDialClose},
		{"dial/box-gone", "A stream ends when its box is destroyed", checkDialBoxGone},
	}
}

func checkDialAgain(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	for i := range 3 {
		if err := env.answers(ctx, box.ID); err != nil {
			return fmt.Errorf("time %d: %w", i+1, err)
		}
	}
	return nil
}

func checkDialTogether(ctx context.Context, env Env) error {
	if env.Hooks.Answers == nil {
		return skipError{"Answers"}
	}
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	const many = 4
	streams := make([]io.ReadWriteCloser, many)
	err = together(many, func(i int) (err error) {
		streams[i], err = env.Backend.Dial(ctx, box.ID)
		return err
	})
	if err != nil {
		return err
	}
	if err := streams[0].Close(); err != nil {
		return fmt.Errorf("closing one: %w", err)
	}
	return together(many-1, func(i int) error {
		defer closing(streams[i+1])
		return env.Hooks.Answers(ctx, streams[i+1])
	})
}

// together calls f n times at once.
func together(n int, f func(i int) error) error {
	results := make(chan error, n)
	for i := range n {
		go func() { results <- f(i) }()
	}
	var all []error
	for range n {
		all = append(all, <-results)
	}
	return errors.Join(all...)
}

func checkDialCtx(ctx context.Context, env Env) error {
	if env.Hooks.Answers == nil {
		return skipError{"Answers"}
	}
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	opening, cancel := context.WithCancel(ctx)
	stream, err := env.Backend.Dial(opening, box.ID)
	cancel()
	if err != nil {
		return err
	}
	defer closing(stream)
	if err := settled(ctx); err != nil {
		return err
	}
	return env.Hooks.Answers(ctx, stream)
}

// unknownIDs are well-formed and malformed ids of no box.
func unknownIDs() []string {
	return []string{strings.Repeat("0123456789abcdef", 4), "x", "", "../x", "a b", "ж", "-f", strings.Repeat("x", 300)}
}

func checkDialUnknown(ctx context.Context, env Env) error {
	for _, id := range unknownIDs() {
		stream, err := env.Backend.Dial(ctx, id)
		if err == nil {
			_ = stream.Close() // it should not be there
		}
		if err := wantKind(fmt.Sprintf("id %q", id), err, core.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}

func checkDialStopped(ctx context.Context, env Env) error {
	box, err := env.stopped(ctx)
	if err != nil {
		return err
	}
	stream, err := env.Backend.Dial(ctx, box.ID)
	if err == nil {
		_ = stream.Close() // it should not be there
	}
	return wantKind("a stopped box", err, core.ErrUnavailable)
}

func checkDialClose(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	stream, err := env.Backend.Dial(ctx, box.ID)
	if err != nil {
		return err
	}
	return env.readEnds(ctx, stream, stream.Close)
}

func checkDialBoxGone(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	stream, err := env.Backend.Dial(ctx, box.ID)
	if err != nil {
		return err
	}
	defer closing(stream)
	return env.readEnds(ctx, stream, func() error { return env.Backend.Destroy(ctx, box.ID) })
}

// readEnds reports a reader that does not notice what end does.
func (env Env) readEnds(ctx context.Context, stream io.Reader, end func() error) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stream) // how it ends is the backend's business
	}()
	if err := end(); err != nil {
		return err
	}
	ctx, cancel := env.patience(ctx)
	defer cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("the reader still waits")
	}
}
