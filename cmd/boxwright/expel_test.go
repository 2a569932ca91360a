package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/mcp"
	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/adapters/transport/mcphttp"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// withoutEngine is a system with its stores, whose service has no backend.
func withoutEngine(t *testing.T) *system {
	t.Helper()
	c := config.Default()
	c.Auth.Mode, c.Storage.Dir = config.AuthKeys, t.TempDir()
	c.Files.Dir = c.Storage.Dir + "/files"
	s := &system{log: slog.New(slog.DiscardHandler)}
	var err error
	if s.instance, err = disk.OpenInstance(c.Storage.Dir); err != nil {
		t.Fatal(err)
	}
	if err := s.openStores(c, ""); err != nil {
		t.Fatal(err)
	}
	s.service = app.New(app.Ports{
		Backends: app.NewBackends(nil, app.Preference{}, s.log), Sessions: s.sessions, Runs: s.runs, Usage: s.identity,
		Server: s.instance.Server, Alive: s.instance.Alive, Now: time.Now, Log: s.log,
	}, app.Settings{})
	t.Cleanup(func() {
		_ = s.service.Close(context.Background()) // what it ends is not these tests'
		_ = s.database.Close()
		_ = s.instance.Close()
	})
	return s
}

// TestUsersThatAreGoneHaveNothing: what another process did to a user ends what the user has.
func TestUsersThatAreGoneHaveNothing(t *testing.T) {
	s := withoutEngine(t)
	connections := mcphttp.New(mcp.New(nil, mcp.Options{Log: s.log}).MCPServer, mcphttp.Options{Log: s.log})
	defer connections.Close()
	owners := map[string]string{"local": localTenant}
	for _, name := range []string{"stays", "disabled", "removed"} {
		u := auth.NewUser(name, core.RoleUser, time.Now())
		if err := s.identity.AddUser(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		owners[name] = u.ID
	}
	for name, owner := range owners {
		kept := core.Session{
			ID: name, Owner: owner, Backend: "none", Box: "b" + name, Server: s.instance.Server, Created: time.Now(), Used: time.Now(),
			IdleTimeout: time.Hour, MaxAge: time.Hour,
		}
		if err := s.sessions.Add(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
	}
	disable := func(u *core.User) error { u.Disabled = true; return nil }
	err := errors.Join(s.identity.UpdateUser(t.Context(), owners["disabled"], disable), s.identity.RemoveUser(t.Context(), owners["removed"]))
	if err := errors.Join(err, s.expelAll(t.Context(), connections)); err != nil {
		t.Fatal(err)
	}
	for name, gone := range map[string]bool{"stays": false, "local": false, "disabled": true, "removed": true} {
		if _, err := s.service.Session(t.Context(), owners[name], name); errors.Is(err, core.ErrSessionExpired) != gone {
			t.Errorf("the sandbox of who is %s: %v", name, err)
		}
	}
}
