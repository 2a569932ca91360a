//go:build remote && containers_image_openpgp

package podman

import (
	"path/filepath"
	"testing"

	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func TestConformance(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) { executiontest.Run(t, l.env) })
}

func TestConformanceThroughTheExecutable(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		plugin := filepath.Join(t.TempDir(), "plugin")
		daemontest.Program(t, plugin, "../../cmd/boxwright-backend-podman", "-tags", "remote containers_image_openpgp")
		cfg := daemontest.Config(l.agent)
		cfg.Settings = []byte(`{"host": "` + l.host + `"}`)
		client := sdktest.Spawn(t, plugin, sdktest.Options{Config: cfg})
		executiontest.Run(t, func(t *testing.T) executiontest.Env { return l.remoteEnv(t, client) }, executiontest.RemoteSkips()...)
	})
}
