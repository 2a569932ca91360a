package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fence"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/gvisor"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/preview"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/runner"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/server"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/sweep"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/watch"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/workspace"
	"github.com/boxwright/boxwright/core"
)

func serve(args []string) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	if err := expire(opts.expires); err != nil {
		return err
	}
	sweeper, err := sweep.New()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return core.Errorf(core.ErrInternal, "the agent does not find itself: %w", err)
	}
	if err := watch.Confine(opts.bounds); err != nil {
		return core.Errorf(core.ErrUnsupported, "the box's limits cannot be set: %w", err)
	}
	harden()
	if !gvisor.Inside() { // whose kernel has threads for everybody, and shares processor time by itself
		reserveThreads(serveThreads)
		if opts.bounds != (watch.Bounds{}) {
			fence.Yield()
		}
	}
	first, err := firstStream(opts)
	if err != nil {
		return err
	}
	listener, err := server.Listen(opts.dialUID, first)
	if err != nil {
		return core.Errorf(core.ErrUnavailable, "the agent's socket is taken: %w", err)
	}
	work, err := workspace.Open(core.GuestWork)
	if err != nil {
		return err
	}
	reaping := reaper.Start()
	env := runner.BaseEnv(os.Environ())
	config := python.Config{Env: runner.Pairs(env)}
	if !opts.bare {
		config.Path = python.Find(filepath.SplitList(env["PATH"]))
	}
	plain, loaded := interpreters(config, opts.preload, reaping)
	service := &server.Server{
		Version:   version,
		Python:    config.Path,
		Workspace: work,
		Renderer:  preview.Renderer{Program: program, Reaper: reaping, Expose: runner.Expose},
		Runner: runner.New(runner.Config{
			Reaper: reaping, Sweeper: sweeper, Watcher: watch.New(opts.bounds), Workspace: work,
			Plain: plain, Loaded: loaded, Env: env,
		}),
	}
	return service.Serve(context.Background(), listener)
}

// interpreters returns one without and one with preloads, which are already on their way. Without preloads
// they are the same.
func interpreters(config python.Config, preload string, r *reaper.Reaper) (plain, loaded *python.Warm) {
	if preload != "" {
		config.Preload = strings.Split(preload, ",")
	}
	plain = python.New(config, r)
	loaded = plain
	if preload != "" {
		loaded = plain.Loaded()
	}
	go func() { // the first run reports what is wrong
		if plain.Settle() == nil && loaded != plain {
			_ = loaded.Start()
		}
	}()
	return plain, loaded
}

// expire ends the box at its time, as a last resort for one whose host is gone. It looks at the clock
// again and again, because a timer stands still while a machine sleeps.
func expire(at string) error {
	if at == "" {
		return nil
	}
	end, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return core.Errorf(core.ErrInvalid, "the time of expiry is not RFC 3339: %w", err)
	}
	go func() {
		for {
			left := time.Until(end.Round(0))
			if left <= 0 {
				os.Exit(0)
			}
			time.Sleep(min(left, 30*time.Second))
		}
	}()
	return nil
}
