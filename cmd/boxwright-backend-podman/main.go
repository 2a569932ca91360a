//go:build remote && containers_image_openpgp

// Command boxwright-backend-podman is the plugin that makes boxes on Podman. The server starts
// it; it is not meant to be run by hand.
package main

import (
	"github.com/boxwright/boxwright/plugins/podman"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// version is set when a release is built.
var version = "dev"

func main() { sdk.Serve(podman.Plugin{Version: version}.Open) }
