//go:build remote && containers_image_openpgp

package podman

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

func TestPlan(t *testing.T) {
	labels := core.Labels{Instance: "i", Server: "s", Tenant: "t", Purpose: core.PurposeRun}
	from := origin{name: "python:3.11-slim", id: "1234", arch: "amd64", env: map[string]string{"PATH": "/bin"}, agent: agentfile.File{Name: "boxwright-agent-0-amd64"}}
	o := order{Name: "boxwright-run-x", From: from, AgentFolder: "/volumes/agent/_data"}
	run := core.BoxSpec{Image: "python:3.11-slim", Limits: core.DefaultLimits(), Labels: labels}
	session := run
	session.Labels.Purpose = core.PurposeSession
	session.Labels.Expires = time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	session.Mounts = []core.Mount{{Volume: "work", Path: core.GuestWork, Writable: true}, {Volume: "env", Path: core.GuestEnvironment}}
	install := core.BoxSpec{
		Image: "python:3.11-slim", Network: core.NetworkFull, Labels: labels,
		Limits: core.Limits{MemoryBytes: 1 << 30, CPUs: 16, PIDs: 100, DiskBytes: 64 << 20},
		Mounts: []core.Mount{{Volume: "env", Path: core.GuestEnvironment, Writable: true}},
	}
	for name, c := range map[string]struct {
		spec    core.BoxSpec
		facts   hostInfo
		runtime string
	}{
		"run":              {run, machineOf("v1", false, "cpu", "memory", "pids"), ""},
		"run-rootless-v1":  {run, machineOf("v1", true), ""},
		"run-rootless-v2":  {run, machineOf("v2", true, "memory", "pids"), ""},
		"run-selinux":      {run, enforcing(machineOf("v2", false, "cpu", "memory", "pids")), ""},
		"session":          {session, machineOf("v2", false, "cpu", "memory", "pids"), ""},
		"install":          {install, machineOf("v2", false, "cpu", "memory", "pids"), "runsc"},
		"install-bridge":   {install, bridged(machineOf("v2", false, "cpu", "memory", "pids")), ""},
		"install-rootless": {install, machineOf("v2", true, "cpu", "memory", "pids"), ""},
		"install-pasta":    {install, pasta(machineOf("v2", true, "cpu", "memory", "pids")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Runtime, o.Facts = c.runtime, factsOf(c.facts, "", c.runtime)
			daemontest.Golden(t, "podman", name, plan(c.spec, o))
		})
	}
	daemontest.Golden(t, "podman", "helper", planHelper("boxwright-helper-x", from, labels, factsOf(machineOf("v2", true), "", "")))
	daemontest.Golden(t, "podman", "volume", planVolume("env", labels))
}

// machineOf is what a service with two processors says of itself.
func machineOf(cgroup string, rootless bool, controllers ...string) (info hostInfo) {
	info.Host.CPUs = 2
	info.Host.CgroupVer, info.Host.Controllers = cgroup, controllers
	info.Host.Security.Rootless, info.Host.Security.Seccomp = rootless, true
	info.Host.SlirpNetwork.Executable = "/usr/bin/slirp4netns"
	return info
}

func enforcing(info hostInfo) hostInfo {
	info.Host.Security.SELinux = true
	return info
}

func bridged(info hostInfo) hostInfo {
	info.Host.SlirpNetwork.Executable = ""
	return info
}

func pasta(info hostInfo) hostInfo {
	info.Host.RootlessNet = "pasta"
	return info
}
