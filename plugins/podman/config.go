//go:build remote && containers_image_openpgp

package podman

import (
	"encoding/json"

	"github.com/boxwright/boxwright/plugins/sdk"
)

// Settings is the plugin's section of the operator's config. The zero value finds the engine
// as discover says.
type Settings struct {
	Host    string `json:"host"`    // unix:///path, tcp://host:port; "" looks for one
	Runtime string `json:"runtime"` // an OCI runtime that the engine knows, such as "runsc"; "" is its default
}

func decodeSettings(raw json.RawMessage) (Settings, error) {
	var s Settings
	err := sdk.DecodeSettings(raw, &s)
	return s, err
}
