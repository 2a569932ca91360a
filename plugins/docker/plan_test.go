package docker

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

func TestPlan(t *testing.T) {
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	labels := core.Labels{Instance: "i", Server: "s", Tenant: "t", Purpose: core.PurposeRun}
	o := order{Name: "boxwright-run-x", Image: "sha256:1", Agent: "boxwright-agent-0-amd64", Server: "s", MaxCPUs: 8}
	for name, c := range map[string]struct {
		spec  core.BoxSpec
		order order
	}{
		"run": {core.BoxSpec{Image: "python:3.11-slim", Limits: core.DefaultLimits(), Labels: labels}, o},
		"session": {core.BoxSpec{
			Image: "python:3.11-slim", Limits: core.DefaultLimits(),
			Labels: core.Labels{Instance: "i", Server: "s", Tenant: "t", Purpose: core.PurposeSession, Expires: expires},
			Mounts: []core.Mount{{Volume: "work", Path: core.GuestWork, Writable: true}, {Volume: "env", Path: core.GuestEnvironment}},
		}, o},
		"install": {core.BoxSpec{
			Image: "python:3.11-slim", Network: core.NetworkFull, Labels: labels,
			Limits: core.Limits{MemoryBytes: 1 << 30, CPUs: 16, PIDs: 100, DiskBytes: 64 << 20},
			Mounts: []core.Mount{{Volume: "env", Path: core.GuestEnvironment, Writable: true}},
		}, order{Name: "boxwright-install-x", Image: "sha256:1", Agent: "a", Server: "s", Runtime: "runsc", MaxCPUs: 2}},
		"sandbox": {
			core.BoxSpec{Image: "python:3.11-slim", Limits: core.DefaultLimits(), Labels: labels},
			order{Name: "boxwright-run-x", Image: "sha256:1", Agent: "a", Server: "s", Runtime: "runsc", Sandbox: true, Limits: map[core.Limit]core.Enforcement{
				core.LimitMemory: core.EnforcedCgroup, core.LimitPIDs: core.EnforcedRlimit,
			}},
		},
		"volumes": {core.BoxSpec{
			Image: "some/db:1", Limits: core.DefaultLimits(), Labels: labels,
			Mounts: []core.Mount{{Volume: "env", Path: core.GuestEnvironment}},
		}, order{
			Name: "boxwright-run-x", Image: "sha256:1", Agent: "a", Server: "s",
			Volumes: []string{"/data", core.GuestEnvironment, core.GuestTmp, core.GuestWork + "/db"},
		}},
	} {
		t.Run(name, func(t *testing.T) { daemontest.Golden(t, "docker", name, plan(c.spec, c.order)) })
	}
	daemontest.Golden(t, "docker", "helper", planHelper("boxwright-helper-x", origin{id: "sha256:1", volumes: []string{"/data"}}, labels, []string{"a", "b"}))
}
