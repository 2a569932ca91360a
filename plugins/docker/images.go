package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/docker/docker/api/types/image"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// EnsureImage implements execution.Backend.
func (b *Backend) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	name, err := core.NormalizeImage(ref)
	if err != nil {
		return core.Image{}, err
	}
	if err := policy.Validate(); err != nil {
		return core.Image{}, err
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return core.Image{}, err
	}
	if policy != core.PullAlways {
		have, err := e.inspect(ctx, name)
		if err == nil {
			return describe(ref, have), nil
		}
		if core.KindOf(err) != core.ErrNotFound {
			return core.Image{}, err
		}
		if policy == core.PullNever {
			return core.Image{}, core.Errorf(core.ErrNotFound, "image %s is not in the engine, and the pull policy is never", name).
				WithHint("fetch it with \"docker pull %s\", or set the pull policy to missing", name)
		}
	}
	err = b.pulls.Do(ctx, name, progress, func(ctx context.Context, report func(core.Progress)) error {
		return e.pull(ctx, name, report)
	})
	if err != nil {
		return core.Image{}, err
	}
	have, err := e.inspect(ctx, name)
	if err != nil {
		return core.Image{}, err
	}
	return describe(ref, have), nil
}

func describe(ref string, have image.InspectResponse) core.Image {
	platform := have.Os + "/" + have.Architecture
	if have.Variant != "" {
		platform += "/" + have.Variant
	}
	return core.Image{Ref: ref, Digest: have.ID, Platform: platform}
}

// message is one line of the engine's report.
type message struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Error    string `json:"error"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// pull fetches an image.
func (e *engine) pull(ctx context.Context, ref string, report func(core.Progress)) error {
	report(core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref})
	body, err := e.api.ImagePull(ctx, ref, image.PullOptions{})
	if err != nil {
		return e.pullError(ctx, ref, err)
	}
	defer func() { _ = body.Close() }() // it was only read
	layers := map[string]message{}
	for dec := json.NewDecoder(body); ; {
		var m message
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return e.fail(ctx, err, "fetching image %s broke off", ref)
		}
		if m.Error != "" {
			return e.pullError(ctx, ref, errors.New(m.Error))
		}
		follow(ref, layers, m, report)
	}
}

// follow sums the bytes of all layers. Unpacking counts nothing: its bytes are the same again.
func follow(ref string, layers map[string]message, m message, report func(core.Progress)) {
	if m.ID == "" || m.Status != "Downloading" && m.Status != "Download complete" {
		return
	}
	if m.Status == "Download complete" {
		m.Progress.Total = layers[m.ID].Progress.Total
		m.Progress.Current = m.Progress.Total
	}
	layers[m.ID] = m
	sum := core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref}
	for _, layer := range layers {
		sum.Done += layer.Progress.Current
		sum.Total += layer.Progress.Total
	}
	report(sum)
}

// pullError sorts a registry's refusals, of which the engine passes on only the text.
func (e *engine) pullError(ctx context.Context, ref string, err error) error {
	if ctx.Err() != nil {
		return core.ContextError(ctx)
	}
	if refused := daemon.PullError(ref, e.facts().info.OSType+"/"+e.facts().arch, "docker", err); refused != nil {
		return refused
	}
	return e.fail(ctx, err, "image %s could not be fetched", ref)
}
