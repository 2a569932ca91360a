package gvisor

import (
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

func TestPlan(t *testing.T) {
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	labels := core.Labels{Instance: "i", Server: "s", Tenant: "t", Purpose: core.PurposeRun}
	all := cgroups{Root: "/sys/fs/cgroup", Memory: true, CPU: true, PIDs: true}
	root := order{
		ID: "boxwright-a", Gofers: true, Folders: folders{state: "/state", cache: "/cache"}, Root: "/cache/images/1/root",
		Env: []string{"PATH=/image/bin", "LANG=C"}, Agent: "/state/agents/x", Cgroups: all, MaxCPUs: 8,
		Limits: map[core.Limit]core.Enforcement{core.LimitMemory: core.EnforcedCgroup, core.LimitPIDs: core.EnforcedRlimit},
	}
	user := root
	user.UID, user.GID, user.Cgroups, user.Env, user.Gofers, user.CanWait = 1001, 1002, cgroups{}, nil, false, true
	host := root
	host.Root, host.Binds, host.Masks, host.Platform, host.MaxCPUs = "/cache/images/2/root", []string{"/usr", "/lib"}, []string{"/usr/local"}, "kvm", 2
	run := core.BoxSpec{Image: "python:3.11-slim", Limits: core.DefaultLimits(), Labels: labels}
	session := run
	session.Labels.Purpose, session.Labels.Expires = core.PurposeSession, expires
	session.Mounts = []core.Mount{{Volume: "work", Path: core.GuestWork, Writable: true}, {Volume: "env", Path: core.GuestEnvironment}}
	install := core.BoxSpec{
		Image: core.ImageHost, Network: core.NetworkFull, Labels: labels,
		Limits: core.Limits{MemoryBytes: 1 << 30, CPUs: 1.5, PIDs: 100, DiskBytes: 64 << 20},
		Mounts: []core.Mount{{Volume: "env", Path: core.GuestEnvironment, Writable: true}},
	}
	old := user
	old.CanWait = false
	packages := run
	packages.Mounts = []core.Mount{{Volume: "env", Path: core.GuestEnvironment}}
	for name, c := range map[string]struct {
		spec  core.BoxSpec
		order order
	}{
		"run":              {run, root},
		"session":          {session, root},
		"packages":         {packages, root},
		"install-host":     {install, host},
		"rootless":         {run, user},
		"rootless-old":     {run, old},
		"rootless-install": {install, user},
	} {
		t.Run(name, func(t *testing.T) { daemontest.Golden(t, "gvisor", name, plan(c.spec, c.order)) })
	}
}

func TestPlanOfTheTunnel(t *testing.T) {
	daemontest.Golden(t, "gvisor", "tunnel", planTunnel(123, true))
	daemontest.Golden(t, "gvisor", "rootless-tunnel", planTunnel(123, false))
}
