// Command example is the smallest useful backend: boxes of bubblewrap, made from the programs of the
// machine that it runs on. Read it from here to box.go and plan.go, and copy it; docs/plugins.md has
// the rest. It needs bwrap, nsenter, and a kernel that lets its user make user namespaces. Root it refuses
// to be. It has no network, no images, and no limit on processor time.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/folders"
	"github.com/boxwright/boxwright/ports/execution"
)

// main hands a way to open the backend to the SDK, to which standard output belongs.
func main() { sdk.Serve(open) }

// Settings is the plugin's own section of the server's config.
type Settings struct {
	// State is the folder of boxes and volumes. Default: .local/state/boxwright-example in HOME.
	State string `json:"state"`
}

// open makes the backend. What the engine lacks is an error of the first call that needs it.
func open(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
	var settings Settings
	if err := sdk.DecodeSettings(cfg.Settings, &settings); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // whatever gets out of a box would be root
		return nil, core.Errorf(core.ErrDenied, "boxes belong to the plugin's user, who must not be root").WithHint("use an ordinary user")
	}
	if settings.State == "" {
		settings.State = filepath.Join(os.Getenv("HOME"), ".local", "state", "boxwright-example")
	}
	boxes, volumes := folders.Open(settings.State)
	return &backend{boxes: boxes, volumes: volumes, agents: agentfile.New(cfg.Agents)}, nil
}
