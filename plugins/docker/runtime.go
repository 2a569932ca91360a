package docker

import (
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// shimPrefix begins the names of runtimes that an engine finds by itself, without having been told of them.
const shimPrefix = "io.containerd."

// engineName names the runtime too, if it is not the engine's own choice.
func engineName(ociRuntime string) string {
	if ociRuntime == "" {
		return "Docker Engine"
	}
	return "Docker Engine with the runtime " + ociRuntime
}

// checkRuntime is core.ErrUnsupported for a runtime that the engine does not know.
func checkRuntime(info system.Info, ociRuntime string) error {
	_, known := info.Runtimes[ociRuntime]
	if known || ociRuntime == "" || strings.HasPrefix(ociRuntime, shimPrefix) {
		return nil
	}
	names := slices.Sorted(maps.Keys(info.Runtimes))
	return core.Errorf(core.ErrUnsupported, "the engine does not know the runtime %q of settings.runtime; it knows %s", ociRuntime, strings.Join(names, ", ")).
		WithHint("add the runtime to the engine's daemon.json and have it read that again, or set settings.runtime to one that it knows")
}

// isSandbox recognises gVisor by the runtime's name, or by what the engine starts for it.
func isSandbox(info system.Info, ociRuntime string) bool {
	if ociRuntime == "" {
		ociRuntime = info.DefaultRuntime
	}
	told := info.Runtimes[ociRuntime]
	return daemon.IsSandbox(ociRuntime) || daemon.IsSandbox(told.Path) || daemon.IsSandbox(told.Type)
}
