//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
)

// origin is the image of a box, as it was when the box was asked for.
type origin struct {
	name  string            // for messages
	id    string            // of the content: what is made from it cannot change in between
	arch  string            // as in GOARCH
	env   map[string]string // that it declares
	agent agentfile.File    // the one that runs on it
}

// imageState is what is read of an image.
type imageState struct {
	ID           string `json:"Id"` // without "sha256:"
	OS           string `json:"Os"`
	Architecture string `json:"Architecture"`
	Config       struct {
		Env []string `json:"Env"`
	} `json:"Config"`
}

// originOf looks at the spec's image, which must be there.
func (b *Backend) originOf(ctx context.Context, e *engine, spec core.BoxSpec) (origin, error) {
	have, err := e.inspectSpec(ctx, spec)
	if err != nil {
		return origin{}, err
	}
	if have.OS != "linux" {
		return origin{}, core.Errorf(core.ErrUnsupported, "image %s is for %s; boxes need an image for linux", spec.Image, have.OS)
	}
	agent, err := b.agents.Of(spec.Image, have.Architecture)
	return origin{name: spec.Image, id: have.ID, arch: have.Architecture, env: environment(have.Config.Env), agent: agent}, err
}

func environment(list []string) map[string]string {
	env := map[string]string{}
	for _, pair := range list {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}

// inspectSpec returns the image of that content, or of that name if the spec gives no digest.
func (e *engine) inspectSpec(ctx context.Context, spec core.BoxSpec) (imageState, error) {
	if spec.Digest == "" {
		return e.inspectRef(ctx, spec.Image)
	}
	id := strings.TrimPrefix(spec.Digest, digestPrefix)
	have, err := e.inspect(ctx, id)
	if core.KindOf(err) == core.ErrNotFound || err == nil && have.ID != id {
		return have, core.Errorf(core.ErrNotFound, "image %s is not in the engine any more as it was (%s)", spec.Image, spec.Digest)
	}
	return have, err
}

// inspectRef returns the image that a reference means here, or core.ErrNotFound in words.
func (e *engine) inspectRef(ctx context.Context, ref string) (imageState, error) {
	for _, name := range localNames(ref) {
		have, err := e.inspect(ctx, name)
		if core.KindOf(err) != core.ErrNotFound {
			return have, err
		}
	}
	return imageState{}, core.Errorf(core.ErrNotFound, "image %s is not in the engine", ref)
}

func (e *engine) inspect(ctx context.Context, name string) (imageState, error) {
	ctx, cancel := e.quick(ctx)
	defer cancel()
	var have imageState
	err := e.get(ctx, &have, "/images/%s/json", nil, name)
	return have, e.fail(ctx, err, "image %s could not be inspected", name)
}
