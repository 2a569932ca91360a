package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/mcp"
	"github.com/boxwright/boxwright/adapters/telemetry"
	"github.com/boxwright/boxwright/adapters/transport/stdio"
	"github.com/boxwright/boxwright/core"
)

// closeTime bounds the end of the server: clients kill what takes much longer.
const closeTime = 8 * time.Second

// logged is an error that the log has already.
type logged struct{ error }

// Unwrap is for those who look for the kind.
func (l logged) Unwrap() error { return l.error }

// logLast has the log tell what ends the server: whoever reads it expects nothing else there.
func logLast(log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	log.Error("the server ended", "error", err, "hint", core.HintOf(err))
	return logged{err}
}

// serve runs the server until its client leaves or ctx ends, and leaves nothing behind.
func serve(ctx context.Context, settings config.Config) (err error) {
	log, err := telemetry.NewLog(os.Stderr, settings.Log.Level, settings.Log.Format)
	if err != nil {
		return err
	}
	if settings.Log.Format == "json" {
		defer func() { err = logLast(log, err) }()
	}
	telemetry.Capture(logrus.StandardLogger(), log) // ttrpc's
	for _, note := range settings.Notes {
		log.Info(note)
	}
	system, err := wire(settings, log)
	if err != nil {
		return err
	}
	system.backends.Start() // whoever calls first need not wait for it
	sweeping, stopSweeping := context.WithCancel(ctx)
	go system.service.Sweep(sweeping)
	go system.keepFiles(sweeping, settings)
	if system.auth != nil {
		go system.auth.KeepUses(sweeping)
	}
	go system.service.KeepWarm(sweeping, warmSets(settings))
	defer func() {
		stopSweeping()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, system.close(closing))
	}()
	return speak(ctx, settings, system, newServer(settings, system))
}

// newServer presents the use cases.
func newServer(settings config.Config, system *system) *mcp.Server {
	return mcp.New(system.tenants, mcp.Options{
		Version:      version,
		DefaultImage: settings.Images.Default,
		Images:       settings.Images.Allow,
		Backends:     settings.Choices(),
		Languages:    settings.Interpreters().Names(),
		Timeout:      settings.Runs.Timeout.Std(),
		MaxTimeout:   settings.Runs.MaxTimeout.Std(),
		Memory:       int64(settings.Limits.Memory),
		Links:        &system.links,
		Tools:        settings.Tools,
		UploadFrom:   settings.Files.UploadFrom,
		SyncLimit:    settings.Runs.SyncLimit.Std(),
		Tenant:       localTenant,
		Server:       system.instance.Server,
		Log:          system.log,
	})
}

// speak serves on the transports that the settings name, until one of them ends or ctx does.
func speak(ctx context.Context, settings config.Config, system *system, server *mcp.Server) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var ways []func(context.Context) error
	if settings.UsesHTTP() {
		web, err := openHTTP(ctx, settings, system, server, system.authenticator())
		if err != nil {
			return err
		}
		if err := system.offerSetup(ctx, settings.Auth); err != nil {
			return err
		}
		ways = append(ways, web.serve)
		if settings.Auth.UsesKeys() {
			ways = append(ways, func(ctx context.Context) error { system.keepOut(ctx, web.sessions); return nil })
		}
	}
	if settings.UsesStdio() {
		ways = append(ways, func(ctx context.Context) error { return speakStdio(ctx, system, server) })
	}
	ended := make(chan error, len(ways))
	for _, serve := range ways {
		go func() { ended <- serve(ctx) }()
	}
	var err error
	for range ways {
		err = errors.Join(err, <-ended)
		end()
	}
	return err
}

func speakStdio(ctx context.Context, system *system, server *mcp.Server) error {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		system.log.Info("waiting for an MCP client on standard input; clients start this command by themselves")
	}
	return stdio.Serve(ctx, server.MCPServer, os.Stdin, os.Stdout, //nolint:forbidigo // handed to the transport, which it belongs to
		stdio.Options{InFlight: server.InFlight, Unwanted: mcp.IsWithdrawn, Log: system.log})
}

// localTenant owns what is made where nobody is asked who they are: on stdio, and over HTTP without keys.
const localTenant = "local"
