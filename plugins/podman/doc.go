// Package podman is the backend on Podman, rootful and rootless.
//
// A box is a container with a read-only root, without capabilities and without a network unless
// asked for; the agent is its PID 1 and comes from a volume. Everything goes through the API of
// Podman's service, nothing through a path of this machine, so the engine may be elsewhere.
// The package is linked by the plugin executable only.
//
// Podman's client library needs the build tags "remote" and "containers_image_openpgp" to do
// without C libraries; without them only this file is compiled. "make build" sets them.
package podman
