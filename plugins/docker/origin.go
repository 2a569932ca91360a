package docker

import (
	"context"
	"maps"
	"path"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
)

// maxVolumes bounds the VOLUMEs that an image may declare.
const maxVolumes = 32

// origin is the image of a box, as it was when the box was asked for.
type origin struct {
	name    string         // for messages
	id      string         // of the content: what is made from it cannot change in between
	arch    string         // as in GOARCH
	volumes []string       // the folders that it declares as VOLUMEs
	agent   agentfile.File // the one that runs on it
}

// originOf looks at the spec's image, which must be there.
func (b *Backend) originOf(ctx context.Context, e *engine, spec core.BoxSpec) (origin, error) {
	have, err := e.inspectSpec(ctx, spec)
	if err != nil {
		return origin{}, err
	}
	if have.Os != "linux" {
		return origin{}, core.Errorf(core.ErrUnsupported, "image %s is for %s; boxes need an image for linux", spec.Image, have.Os)
	}
	o := origin{name: spec.Image, id: have.ID, arch: have.Architecture}
	if have.Config != nil {
		o.volumes, err = imageVolumes(spec, have.Config.Volumes)
	}
	if err == nil {
		o.agent, err = b.agents.Of(spec.Image, have.Architecture)
	}
	return o, err
}

// inspectSpec returns the image of that content, or of that name if the spec gives no digest.
func (e *engine) inspectSpec(ctx context.Context, spec core.BoxSpec) (image.InspectResponse, error) {
	if spec.Digest == "" {
		return e.inspect(ctx, spec.Image)
	}
	have, err := e.inspect(ctx, spec.Digest)
	if core.KindOf(err) == core.ErrNotFound {
		return have, core.Errorf(core.ErrNotFound, "image %s is not in the engine any more as it was (%s)", spec.Image, spec.Digest)
	}
	return have, err
}

// inspect returns the image, or core.ErrNotFound in words.
func (e *engine) inspect(ctx context.Context, ref string) (image.InspectResponse, error) {
	ctx, cancel := e.quick(ctx)
	defer cancel()
	have, err := e.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return have, core.Errorf(core.ErrNotFound, "image %s is not in the engine", ref)
	}
	return have, e.fail(ctx, err, "image %s could not be inspected", ref)
}

// imageVolumes lists the folders of an image's VOLUMEs, cleaned and sorted. It refuses those
// that would lie over the agent, or in a volume where no folder can be made for them.
func imageVolumes(spec core.BoxSpec, declared map[string]struct{}) ([]string, error) {
	if len(declared) > maxVolumes {
		return nil, core.Errorf(core.ErrUnsupported, "image %s declares %d VOLUMEs; boxes take at most %d", spec.Image, len(declared), maxVolumes)
	}
	var folders []string
	for _, raw := range slices.Sorted(maps.Keys(declared)) {
		folder := path.Clean(raw)
		inReadOnly := func(m core.Mount) bool { return !m.Writable && m.Path != folder && core.IsWithin(folder, m.Path) }
		if !path.IsAbs(folder) || folder == "/" || core.IsWithin(folder, core.GuestBin) || slices.ContainsFunc(spec.Mounts, inReadOnly) {
			return nil, core.Errorf(core.ErrUnsupported, "image %s declares a VOLUME at %q, where a box cannot have one", spec.Image, raw)
		}
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}
