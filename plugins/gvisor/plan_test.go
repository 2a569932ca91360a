package gvisor

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// golden compares v with a file, or rewrites it.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("..", "..", "testdata", "plan", "gvisor", name+".golden")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the plan is not %s; run with -update and review the diff. It is:\n%s", path, got)
	}
}

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
	user.UID, user.GID, user.Cgroups, user.Env, user.Gofers = 1001, 1002, cgroups{}, nil, false
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
		"rootless-install": {install, user},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, plan(c.spec, c.order)) })
	}
}

func TestPlanOfTheTunnel(t *testing.T) {
	golden(t, "tunnel", planTunnel(123, true))
	golden(t, "rootless-tunnel", planTunnel(123, false))
}
