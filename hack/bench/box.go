package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func commandOption(start transport.CommandFunc) transport.StdioOption {
	return transport.WithCommandFunc(start)
}

// waitingBox measures the backend's own steps, and a run in a box that waits.
func waitingBox(ctx context.Context, state string) error {
	agent, err := filepath.Abs(filepath.Join("bin", "boxwright-agent-linux-"+runtime.GOARCH))
	if err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join("bin", "boxwright-backend-docker"))
	if err != nil {
		return err
	}
	backend := pluginhost.Open(pluginhost.Config{
		Name: "docker", Path: path, Agents: map[string]string{runtime.GOARCH: agent},
		Instance: "bench-" + filepath.Base(state), Server: "bench",
	})
	defer backend.Close(ctx) //nolint:errcheck // the process is killed by it
	steps := map[string][]time.Duration{}
	timed := func(step string, do func() error) error {
		began := time.Now()
		err := do()
		steps[step] = append(steps[step], time.Since(began))
		return err
	}
	for range 5 {
		if err := oneBox(ctx, backend, timed); err != nil {
			return err
		}
	}
	for _, step := range []string{"create", "dial", "first run", "destroy"} {
		row("box: "+step, "p50 %s", ms(quantile(steps[step], .5)))
	}
	row("run in a waiting box", "p50 %s  p99 %s", ms(quantile(steps["run"], .5)), ms(quantile(steps["run"], .99)))
	return nil
}

func oneBox(ctx context.Context, backend *pluginhost.Plugin, timed func(string, func() error) error) error {
	var box core.Box
	err := timed("create", func() (err error) {
		box, err = backend.Create(ctx, core.BoxSpec{
			Image: image, Limits: core.DefaultLimits(),
			Labels: core.Labels{Instance: "bench", Server: "bench", Purpose: core.PurposeRun, Expires: time.Now().Add(10 * time.Minute)},
		})
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = timed("destroy", func() error { return backend.Destroy(ctx, box.ID) }) }()
	var reached execution.Guest
	if err := timed("dial", func() (err error) {
		reached, err = (&guest.Connector{}).Connect(ctx, backend, box.ID)
		return err
	}); err != nil {
		return err
	}
	defer reached.Close() //nolint:errcheck // the box goes right after
	step := "first run"
	for i := range runs/5 + 1 {
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
