package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution"
)

// boxes measures a backend's own steps, and runs in a box that waits.
type boxes struct {
	backend  execution.Backend
	close    func()
	instance string
	image    core.Image
}

func openBoxes(ctx context.Context, p *benchPlace, run string) (*boxes, error) {
	settings, err := json.Marshal(p.Settings)
	if err != nil {
		return nil, err
	}
	b := &boxes{instance: "bench-" + run}
	b.backend, b.close, err = sdktest.Launch(ctx, filepath.Join(p.dir, "boxwright-backend-"+p.Backend), sdktest.Options{
		Env: p.Environment(p.state()), Process: p.Process(),
		Config: sdk.Config{
			Settings: settings, Instance: b.instance, Server: "bench",
			Agents: map[string]string{runtime.GOARCH: filepath.Join(p.dir, "boxwright-agent-linux-"+runtime.GOARCH)},
		},
	})
	return b, err
}

// spec is a box as the server would ask for it.
func (b *boxes) spec(ctx context.Context) (core.BoxSpec, error) {
	if b.image.Ref == "" {
		var err error
		if b.image, err = b.backend.EnsureImage(ctx, image, core.PullMissing, nil); err != nil {
			return core.BoxSpec{}, err
		}
	}
	return core.BoxSpec{
		Image: b.image.Ref, Digest: b.image.Digest, Limits: core.DefaultLimits(), Unenforced: core.UnenforcedWarn,
		Labels: core.Labels{Instance: b.instance, Server: "bench", Purpose: core.PurposeRun, Expires: time.Now().Add(10 * time.Minute)},
	}, nil
}

// one makes a box, uses it, and removes it.
func (b *boxes) one(ctx context.Context, timed func(string, func() error) error) error {
	spec, err := b.spec(ctx)
	if err != nil {
		return err
	}
	var box core.Box
	err = timed("create", func() (err error) {
		box, err = b.backend.Create(ctx, spec)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.use(ctx, box.ID, timed); err != nil {
		return err
	}
	return timed("destroy", func() error { return b.backend.Destroy(ctx, box.ID) })
}

func (b *boxes) use(ctx context.Context, box string, timed func(string, func() error) error) error {
	var reached execution.Guest
	if err := timed("dial", func() (err error) {
		reached, err = (&guest.Connector{}).Connect(ctx, b.backend, box)
		return err
	}); err != nil {
		return err
	}
	defer reached.Close() //nolint:errcheck // the box goes right after
	step := "first run"
	for i := range runs/rounds + 1 {
		if err := timed(step, func() error { return runHello(ctx, reached, i) }); err != nil {
			return err
		}
		step = "run"
	}
	return nil
}

func runHello(ctx context.Context, box execution.Guest, n int) error {
	exit, err := box.Run(ctx, core.RunSpec{
		ID: fmt.Sprintf("bench%d", n), Code: []byte(hello), Timeout: 30 * time.Second,
		Output: core.OutputLimits{Head: 1 << 10, Tail: 1 << 10, Spill: 1 << 20},
	}, nil)
	if err != nil {
		return err
	}
	if string(exit.Stdout.Head) != "hello\n" || exit.Code != 0 {
		return fmt.Errorf("the run gave %d and %q", exit.Code, exit.Stdout.Head)
	}
	return nil
}
