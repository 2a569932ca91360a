//go:build remote && containers_image_openpgp

package podman

import (
	"os"
	"os/exec"
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
		build := exec.Command("go", "build", "-tags", "remote containers_image_openpgp", "-o", plugin, "../../cmd/boxwright-backend-podman")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cfg := daemontest.Config(l.agent)
		cfg.Settings = []byte(`{"host": "` + l.host + `"}`)
		executiontest.Run(t, func(t *testing.T) executiontest.Env {
			return l.remoteEnv(t, sdktest.Spawn(t, plugin, sdktest.Options{Config: cfg}))
		}, executiontest.RemoteSkips()...)
	})
}
