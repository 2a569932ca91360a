package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// A plugin's main is one line. The backend here is the suite's fake; plugins/example has a real one.
func ExampleServe() {
	type Settings struct {
		Socket string `json:"socket"`
	}
	open := func(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
		settings := Settings{Socket: "/run/engine.sock"} // the default
		if err := sdk.DecodeSettings(cfg.Settings, &settings); err != nil {
			return nil, err
		}
		return executiontest.NewFake(), nil // newBackend(settings, agentfile.New(cfg.Agents))
	}
	main := func() { sdk.Serve(open) }
	_ = main
}

// Settings are decoded strictly: whoever mistypes a key is told which ones there are.
func ExampleDecodeSettings() {
	var settings struct {
		Socket string `json:"socket"`
		Pull   bool   `json:"pull"`
	}
	err := sdk.DecodeSettings(json.RawMessage(`{"soket": "/run/engine.sock"}`), &settings)
	fmt.Println(core.KindOf(err) == core.ErrInvalid)
	fmt.Println(err)
	// Output:
	// true
	// settings has no key "soket" (allowed: pull, socket)
}
