package docker

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"

	"github.com/boxwright/boxwright/core"
)

// engineInfo is an engine with some runtimes.
func engineInfo() system.Info {
	with := func(path, kind string) system.RuntimeWithStatus {
		return system.RuntimeWithStatus{Runtime: system.Runtime{Path: path, Type: kind}}
	}
	return system.Info{
		MemoryLimit: true, CPUCfsQuota: true, PidsLimit: true, DefaultRuntime: "runc",
		Runtimes: map[string]system.RuntimeWithStatus{
			"runc": with("runc", ""), "runsc": with("/opt/x", ""), "secure": with("/usr/local/bin/runsc", ""),
			"shim": with("", "io.containerd.runsc.v1"), "kata": with("/usr/bin/kata-runtime", ""),
		},
	}
}

func TestRuntimeIsRecognised(t *testing.T) {
	byDefault := engineInfo()
	byDefault.DefaultRuntime = "secure"
	for _, c := range []struct {
		info    system.Info
		runtime string
		sandbox bool
	}{
		{engineInfo(), "", false},
		{engineInfo(), "runc", false},
		{engineInfo(), "kata", false},
		{engineInfo(), "runsc", true},
		{engineInfo(), "secure", true},
		{engineInfo(), "shim", true},
		{engineInfo(), "io.containerd.runsc.v1", true},
		{engineInfo(), "io.containerd.runc.v2", false},
		{byDefault, "", true},
		{byDefault, "runc", false},
	} {
		got := factsOf(c.info, c.runtime)
		pids := core.EnforcedCgroup
		if c.sandbox {
			pids = core.EnforcedRlimit
		}
		if got.sandbox != c.sandbox || got.limits[core.LimitPIDs] != pids || got.limits[core.LimitMemory] != core.EnforcedCgroup {
			t.Errorf("%q: %+v", c.runtime, got.limits)
		}
	}
}

// TestLimitsWithoutControlGroups: what the engine cannot enforce is the agent's, but for processor time.
func TestLimitsWithoutControlGroups(t *testing.T) {
	got := factsOf(system.Info{}, "").limits
	if got[core.LimitMemory] != core.EnforcedRlimit || got[core.LimitPIDs] != core.EnforcedRlimit || got[core.LimitCPU] != core.EnforcedNot {
		t.Errorf("%+v", got)
	}
}

func TestUnknownRuntime(t *testing.T) {
	for _, known := range []string{"", "runc", "secure", "io.containerd.anything.v1"} {
		if err := checkRuntime(engineInfo(), known); err != nil {
			t.Errorf("%q: %v", known, err)
		}
	}
	err := checkRuntime(engineInfo(), "runs")
	const want = `the engine does not know the runtime "runs" of settings.runtime; it knows kata, runc, runsc, secure, shim`
	if core.KindOf(err) != core.ErrUnsupported || core.MessageOf(err) != want || core.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	if list := warnings(engineInfo(), "unix:///x", "runs"); !strings.Contains(strings.Join(list, "\n"), want) {
		t.Errorf("nobody is warned: %q", list)
	}
	if name := engineName("runsc"); name != "Docker Engine with the runtime runsc" {
		t.Error(name)
	}
}

// TestCreateWithAnUnknownRuntime asks a real engine.
func TestCreateWithAnUnknownRuntime(t *testing.T) {
	lab := newLab(t)
	lab.runtime = "no-such-runtime"
	b := lab.backend(nil)
	defer b.Close()
	_, err := b.Create(t.Context(), core.BoxSpec{Image: testImage, Limits: core.DefaultLimits(), Labels: core.Labels{Instance: "lab", Purpose: core.PurposeRun}})
	if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(err.Error(), "no-such-runtime") || !strings.Contains(err.Error(), "runc") {
		t.Errorf("got %v", err)
	}
}
