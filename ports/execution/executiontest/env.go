package executiontest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// labels are the environment's own, for one purpose.
func (env Env) labels(purpose core.Purpose) core.Labels {
	return core.Labels{Instance: env.Instance, Server: "server-1", Tenant: "tenant-1", Purpose: purpose}
}

// limits are small enough for many boxes at once.
func (env Env) limits() core.Limits {
	return core.Limits{MemoryBytes: 256 << 20, CPUs: 0.5, PIDs: 64, DiskBytes: 16 << 20}
}

func (env Env) spec() core.BoxSpec {
	return core.BoxSpec{Image: env.Image, Limits: env.limits(), Labels: env.labels(core.PurposeRun), Unenforced: core.UnenforcedWarn}
}

// create makes a box by the environment's spec, changed by change.
func (env Env) create(ctx context.Context, change func(*core.BoxSpec)) (core.Box, error) {
	spec := env.spec()
	if change != nil {
		change(&spec)
	}
	box, err := env.Backend.Create(ctx, spec)
	if err != nil {
		return box, fmt.Errorf("creating a box: %w", err)
	}
	return box, nil
}

// expiryTime is how long a box lives that ends by itself: enough to be made on a busy machine.
const expiryTime = 4 * time.Second

// stopped makes a box whose agent has ended.
func (env Env) stopped(ctx context.Context) (core.Box, error) {
	if env.Hooks.Stop == nil {
		return env.expired(ctx)
	}
	box, err := env.create(ctx, nil)
	if err != nil {
		return box, err
	}
	if err := env.Hooks.Stop(ctx, box.ID); err != nil {
		return box, fmt.Errorf("stopping it: %w", err)
	}
	return box, nil
}

// expired makes a box that ends by itself, and waits for that.
func (env Env) expired(ctx context.Context) (core.Box, error) {
	if !env.Hooks.Expires {
		return core.Box{}, skipError{"Stop"}
	}
	end := time.Now().Add(expiryTime).UTC().Truncate(time.Second)
	box, err := env.create(ctx, func(s *core.BoxSpec) { s.Labels.Expires = end })
	if err != nil {
		return box, err
	}
	select {
	case <-time.After(time.Until(end) + settleTime):
	case <-ctx.Done():
		return box, ctx.Err()
	}
	err = env.eventually(ctx, func() error {
		if env.answers(ctx, box.ID) == nil {
			return errors.New("the agent outlives the box's time: was it started with core.BoxSpec.AgentArgs?")
		}
		return nil
	})
	return box, errors.Join(err, env.seenStopped(ctx, box.ID))
}

// seenStopped gives an engine time to see that a box has stopped. What List then says is the matter of
// another check.
func (env Env) seenStopped(ctx context.Context, box string) error {
	_ = env.eventually(ctx, func() error {
		found, ok, err := env.find(ctx, box)
		if err == nil && ok && found.State == core.BoxRunning {
			return errors.New("it is still running")
		}
		return nil
	})
	return ctx.Err()
}

// volume makes a volume with a name that nobody else uses.
func (env Env) volume(ctx context.Context) (core.Volume, error) {
	v, err := env.Backend.EnsureVolume(ctx, core.Volume{Name: env.volumeName(), Labels: env.labels(core.PurposeCache)})
	if err != nil {
		return v, fmt.Errorf("making a volume: %w", err)
	}
	return v, nil
}

func (env Env) volumeName() string {
	return "boxwright-" + env.Instance + "-" + strings.ToLower(rand.Text()[:8])
}

// answers dials the box and asks its agent.
func (env Env) answers(ctx context.Context, box string) error {
	stream, err := env.Backend.Dial(ctx, box)
	if err != nil {
		return fmt.Errorf("dialling: %w", err)
	}
	defer closing(stream)
	if env.Hooks.Answers == nil {
		return nil
	}
	return env.Hooks.Answers(ctx, stream)
}

func (env Env) inside(ctx context.Context, box string, folders ...string) (Inside, error) {
	stream, err := env.Backend.Dial(ctx, box)
	if err != nil {
		return Inside{}, fmt.Errorf("dialling: %w", err)
	}
	defer closing(stream)
	return env.Hooks.Inside(ctx, stream, folders)
}

// closing closes what a check has done with; how that ends is no part of its sentence.
func closing(c io.Closer) { _ = c.Close() }

// find returns the box as List shows it.
func (env Env) find(ctx context.Context, box string) (found core.Box, ok bool, err error) {
	have, err := env.Backend.List(ctx, env.Instance)
	if err != nil {
		return found, false, fmt.Errorf("listing: %w", err)
	}
	for _, b := range have.Boxes {
		if b.ID == box {
			return b, true, nil
		}
	}
	return found, false, nil
}

func (env Env) findVolume(ctx context.Context, name string) (found core.Volume, ok bool, err error) {
	have, err := env.Backend.List(ctx, env.Instance)
	if err != nil {
		return found, false, fmt.Errorf("listing: %w", err)
	}
	for _, v := range have.Volumes {
		if v.Name == name {
			return v, true, nil
		}
	}
	return found, false, nil
}

// nothingLeft waits until the installation has no box: a clean-up may outlast a cancelled call.
func (env Env) nothingLeft(ctx context.Context) error {
	return env.eventually(ctx, func() error {
		have, err := env.Backend.List(ctx, env.Instance)
		if err != nil {
			return err
		}
		if len(have.Boxes) > 0 {
			return fmt.Errorf("%d boxes are left, such as %+v", len(have.Boxes), have.Boxes[0])
		}
		return nil
	})
}

// eventually repeats f until it returns nil, and returns its last error when it never does.
func (env Env) eventually(ctx context.Context, f func() error) error {
	ctx, cancel := env.patience(ctx)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (env Env) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if env.Patience > 0 {
		return context.WithTimeout(ctx, env.Patience)
	}
	return context.WithTimeout(ctx, 20*time.Second)
}

// wantKind reports an error of another kind than kind; want nil by "".
func wantKind(what string, err error, kind core.Kind) error {
	if got := core.KindOf(err); got != kind {
		return fmt.Errorf("%s: got %q (%s), want %q", what, string(got), fmt.Sprint(err), string(kind))
	}
	return nil
}
