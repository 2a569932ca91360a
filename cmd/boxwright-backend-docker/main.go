// Command boxwright-backend-docker is the plugin that makes boxes on Docker Engine. The server
// starts it; it is not meant to be run by hand.
package main

import (
	"github.com/boxwright/boxwright/plugins/docker"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// version is set when a release is built.
var version = "dev"

func main() { sdk.Serve(docker.Plugin{Version: version}.Open) }
