package docker

import (
	"encoding/json"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// Settings is the plugin's section of the operator's config. The zero value finds the engine
// as the docker command does.
type Settings struct {
	Host    string `json:"host"`    // unix:///path, tcp://host:port; "" looks for one
	Context string `json:"context"` // a context of the docker command
	Runtime string `json:"runtime"` // an OCI runtime that the engine knows, such as "runsc"; "" is its default
}

func decodeSettings(raw json.RawMessage) (Settings, error) {
	var s Settings
	if err := sdk.DecodeSettings(raw, &s); err != nil {
		return Settings{}, err
	}
	if s.Host != "" && s.Context != "" {
		return Settings{}, core.Errorf(core.ErrInvalid, "settings.host and settings.context cannot both be set")
	}
	return s, nil
}
