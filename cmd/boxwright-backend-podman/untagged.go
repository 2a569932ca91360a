//go:build !remote || !containers_image_openpgp

// Command boxwright-backend-podman is the plugin that makes boxes on Podman. Built without the
// tags that Podman's client library needs, it only says so.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "boxwright-backend-podman was built without Podman's client: build it with \"make build\", or with -tags remote,containers_image_openpgp")
	os.Exit(1)
}
