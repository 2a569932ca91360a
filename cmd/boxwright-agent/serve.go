package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/preview"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/runner"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/server"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/sweep"
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
	harden()
	listener, err := server.Listen(opts.dialUID)
	if err != nil {
		return core.Errorf(core.ErrUnavailable, "the agent's socket is taken: %w", err)
	}
	work, err := workspace.Open(core.GuestWork)
	if err != nil {
		return err
	}
	reaping := reaper.Start()
	env := runner.BaseEnv(os.Environ())
	config := python.Config{Path: python.Find(filepath.SplitList(env["PATH"])), Env: runner.Pairs(env)}
	plain, loaded := interpreters(config, opts.preload, reaping)
	service := &server.Server{
		Version:   version,
		Python:    config.Path,
		Workspace: work,
		Renderer:  preview.Renderer{Program: program, Reaper: reaping, Expose: runner.Expose},
		Runner: runner.New(runner.Config{
			Reaper: reaping, Sweeper: sweeper, Workspace: work, Plain: plain, Loaded: loaded, Env: env,
		}),
	}
	return service.Serve(context.Background(), listener)
}

// interpreters returns one without and one with preloads, which is already on its way. Without preloads
// they are the same.
func interpreters(config python.Config, preload string, r *reaper.Reaper) (plain, loaded *python.Warm) {
	plain = python.New(config, r)
	loaded = plain
	if preload != "" {
		config.Preload = strings.Split(preload, ",")
		loaded = python.New(config, r)
	}
	go func() { _ = loaded.Start() }() // the first run reports what is wrong
	return plain, loaded
}

// harden keeps the code from looking into the agent, ending it, or leaving its memory behind.
func harden() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	syscall.Umask(0o022)
	// The kernel keeps signals without a handler from a box's first process; Go's runtime installs
	// handlers that end it. Whatever is caught here has no effect, and children begin without it.
	ignored := make(chan os.Signal, 1)
	const last, urgent, glibc, usable = 64, int(syscall.SIGURG), 32, 35
	for n := 1; n <= last; n++ {
		if n != urgent && n != int(syscall.SIGCHLD) && (n < glibc || n >= usable) {
			signal.Notify(ignored, syscall.Signal(n))
		}
	}
	go func() {
		for range ignored { //nolint:revive // taken so that the next can come
		}
	}()
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
