//go:build remote && containers_image_openpgp

package podman

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		info              hostInfo
		runtime           string
		memory, cpu, pids core.Enforcement
		warns             string
	}{
		"rootful v1":      {machineOf("v1", false, "cpuset", "cpu", "memory", "pids"), "", core.EnforcedCgroup, core.EnforcedCgroup, core.EnforcedCgroup, ""},
		"rootful v2":      {machineOf("v2", false, "cpu", "memory", "pids"), "", core.EnforcedCgroup, core.EnforcedCgroup, core.EnforcedCgroup, ""},
		"no memory group": {machineOf("v1", false, "cpu", "pids"), "", core.EnforcedRlimit, core.EnforcedCgroup, core.EnforcedCgroup, ""},
		"rootless v1":     {machineOf("v1", true), "", core.EnforcedRlimit, core.EnforcedNot, core.EnforcedRlimit, "needs cgroup v2"},
		"v1 that lists":   {machineOf("v1", true, "cpu", "memory", "pids"), "", core.EnforcedRlimit, core.EnforcedNot, core.EnforcedRlimit, "needs cgroup v2"},
		"delegated":       {machineOf("v2", true, "cpu", "memory", "pids"), "", core.EnforcedCgroup, core.EnforcedCgroup, core.EnforcedCgroup, ""},
		"partly":          {machineOf("v2", true, "memory", "pids"), "", core.EnforcedCgroup, core.EnforcedNot, core.EnforcedCgroup, "Delegate=cpu memory pids"},
		"gVisor":          {machineOf("v2", false, "cpu", "memory", "pids"), "/opt/runsc", core.EnforcedCgroup, core.EnforcedCgroup, core.EnforcedRlimit, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := factsOf(c.info, "unix:///x", c.runtime)
			if f.limits[core.LimitMemory] != c.memory || f.limits[core.LimitCPU] != c.cpu || f.limits[core.LimitPIDs] != c.pids {
				t.Errorf("got %v", f.limits)
			}
			if f.limits[core.LimitDisk] != core.EnforcedSandbox || f.limits[core.LimitNetwork] != core.EnforcedSandbox {
				t.Errorf("got %v", f.limits)
			}
			warned := strings.Join(f.warnings[1:], "; ") // the first is told of all networks
			if (warned == "") != (c.warns == "") || !strings.Contains(warned, c.warns) {
				t.Errorf("it warns %q, want %q", warned, c.warns)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	weak := machineOf("v2", false, "cpu", "memory", "pids")
	weak.Store.Driver, weak.Host.Security.Seccomp = "vfs", false
	f := factsOf(weak, "tcp://engine.example:8080", "")
	for _, part := range []string{"169.254.169.254", "storage driver vfs", "no seccomp profile", "over the network"} {
		if !strings.Contains(strings.Join(f.warnings, "; "), part) {
			t.Errorf("nothing says %q: %q", part, f.warnings)
		}
	}
}

// TestReports reads what services of different versions say of themselves.
func TestReports(t *testing.T) {
	for name, c := range map[string]struct {
		report string
		want   facts
	}{
		"4.3": {
			`{"host":{"arch":"amd64","os":"linux","cpus":2,"cgroupVersion":"v1","cgroupControllers":[],"security":{"rootless":true},
			"slirp4netns":{"executable":"/usr/bin/slirp4netns"}},"version":{"Version":"4.3.1"}}`,
			facts{version: "4.3.1", os: "linux", arch: "amd64", cpus: 2, rootless: true, userNet: "slirp4netns"},
		},
		"5.8": {
			`{"host":{"arch":"aarch64","os":"linux","cpus":4,"cgroupVersion":"v2","cgroupControllers":["cpu","memory","pids"],"security":{"rootless":true,"selinuxEnabled":true},
			"rootlessNetworkCmd":"pasta","pasta":{"executable":"/usr/bin/pasta"},"networkBackendInfo":{"dns":{}}},"version":{"Version":"5.8.2","BuildOrigin":"x"}}`,
			facts{version: "5.8.2", os: "linux", arch: "arm64", cpus: 4, rootless: true, selinux: true, userNet: "pasta"},
		},
		"controllers are null": {
			`{"host":{"arch":"amd64","cgroupControllers":null},"version":{"Version":"6.0.0-dev"}}`,
			facts{version: "6.0.0-dev", os: "linux", arch: "amd64"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var info hostInfo
			if err := json.Unmarshal([]byte(c.report), &info); err != nil {
				t.Fatal(err)
			}
			got := factsOf(info, "", "")
			if got.version != c.want.version || got.platform() != c.want.platform() || got.cpus != c.want.cpus ||
				got.rootless != c.want.rootless || got.selinux != c.want.selinux || got.userNet != c.want.userNet {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
