// Command boxwright-backend-gvisor is the plugin that makes boxes with gVisor. The server starts
// it; it is not meant to be run by hand.
package main

import (
	"fmt"
	"os"

	"github.com/boxwright/boxwright/plugins/gvisor"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// version is set when a release is built.
var version = "dev"

func main() {
	if was, err := gvisor.Stage(); was {
		fmt.Fprintln(os.Stderr, err) // the plugin that started it tells the server
		os.Exit(1)
	}
	sdk.Serve(gvisor.Plugin{Version: version}.Open)
}
