package daemon

import (
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// LabelImage keeps the image's name on a box: the container itself is made from an id.
const LabelImage = "boxwright.image"

// PullError sorts a registry's refusals, of which engines pass on only the text. It returns nil
// for what is no refusal of a registry's. platform is os/arch of the engine, and command its
// command-line program, for the hints.
func PullError(ref, platform, command string, err error) error {
	text := err.Error()
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case has("no matching manifest", "no image found in manifest list", "no image found in image index"):
		return core.Errorf(core.ErrUnsupported, "image %s does not exist for this engine's platform (%s)", ref, platform)
	case has("pull access denied", "requested access to the resource is denied"):
		return core.Errorf(core.ErrNotFound, "image %s does not exist, or its registry wants a login", ref).
			WithHint("check the name; a local image is used as it is, without a registry")
	case has("manifest unknown", "manifest for", "not found", "name unknown"):
		return core.Errorf(core.ErrNotFound, "no registry has image %s", ref).WithHint("check the name and the tag")
	case has("unauthorized", "authentication required"):
		return core.Errorf(core.ErrDenied, "the registry of image %s wants a login", ref).
			WithHint("fetch it with the %[1]s command, after \"%[1]s login\"", command)
	case has("dial tcp", "no such host", "i/o timeout", "connection refused", "TLS handshake", "x509", "Client.Timeout", "proxyconnect"):
		return core.Errorf(core.ErrUnavailable, "the registry of image %s cannot be reached: %w", ref, err).
			WithHint("check the engine's network, or load the image with \"%s load\"", command)
	}
	return nil
}
