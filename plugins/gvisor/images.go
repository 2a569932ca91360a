package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/boxwright/boxwright/core"
)

// imageRecord is what is known of an unpacked image. It is written last.
type imageRecord struct {
	Platform string   `json:"platform"`
	Env      []string `json:"env"`
	Binds    []string `json:"binds,omitempty"` // see order
	Masks    []string `json:"masks,omitempty"`
	Layers   []string `json:"layers,omitempty"` // by digest, without "sha256:"
}

// platform is that of all boxes.
func platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// EnsureImage implements execution.Backend. An archive that the settings name is here already,
// whatever the policy says.
func (b *Backend) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	name, err := core.NormalizeImage(ref)
	if err != nil {
		return core.Image{}, err
	}
	if err := policy.Validate(); err != nil {
		return core.Image{}, err
	}
	if _, err := b.usable(ctx); err != nil {
		return core.Image{}, err
	}
	if name == core.ImageHost {
		image, err := b.hostImage(ctx)
		return image, fail(ctx, err, "the image of this machine's own programs could not be made")
	}
	have, err := b.ensure(ctx, name, policy, progress)
	if err == nil {
		b.collected.Do(b.collectLater)
	}
	return core.Image{Ref: ref, Digest: have.Digest, Platform: have.Platform}, err
}

// ensure returns what an image's name means, and fetches it as the policy says.
func (b *Backend) ensure(ctx context.Context, name string, policy core.PullPolicy, progress func(core.Progress)) (refRecord, error) {
	archive, source, err := b.archiveOf(name)
	if err != nil {
		return refRecord{}, err
	}
	have, err := b.readRef(name)
	if err == nil && have.Source == source && (policy != core.PullAlways || source != "") {
		return have, nil
	}
	if policy == core.PullNever && archive == "" {
		return refRecord{}, core.Errorf(core.ErrNotFound, "image %s is not here, and the pull policy is never", name).
			WithHint("set the pull policy to missing, or name an archive of it in backends.gvisor.settings.images")
	}
	err = b.pulls.Do(ctx, name, progress, func(ctx context.Context, report func(core.Progress)) error {
		return b.fetch(ctx, name, archive, source, report)
	})
	if err != nil {
		return refRecord{}, err
	}
	have, err = b.readRef(name)
	return have, fail(ctx, err, "image %s could not be read", name)
}

// archiveOf returns the image's archive in the settings, and what tells whether it has changed.
func (b *Backend) archiveOf(name string) (file, source string, err error) {
	file = b.settings.Images[name]
	if file == "" {
		return "", "", nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", "", core.Errorf(core.ErrNotFound, "the archive of image %s cannot be read: %w", name, err).
			WithHint("correct backends.gvisor.settings.images")
	}
	return file, fmt.Sprintf("%s %d %d", file, info.Size(), info.ModTime().UnixNano()), nil
}

// fetch gets an image from its archive or registry, and unpacks it.
func (b *Backend) fetch(ctx context.Context, ref, archive, source string, report func(core.Progress)) error {
	tell := func(what string, done, total int) {
		report(core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref + what, Done: int64(done), Total: int64(total)})
	}
	tell("", 0, 0)
	var rec refRecord
	image, err := b.openImage(ctx, ref, archive)
	if err == nil {
		rec, err = b.store(ctx, image, tell)
	}
	switch {
	case err != nil && archive != "":
		return archiveError(ctx, ref, archive, err)
	case err != nil:
		return pullError(ctx, ref, err)
	}
	rec.Ref, rec.Source = ref, source
	return fail(ctx, b.writeRef(ctx, rec), "image %s could not be stored", ref)
}

func (b *Backend) openImage(ctx context.Context, ref, archive string) (v1.Image, error) {
	if archive != "" {
		return openArchive(ref, archive)
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "image %q cannot be read as a name: %w", ref, err)
	}
	image, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithPlatform(platform()), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err == nil && manifest.Config.Size > maxConfig {
		err = core.Errorf(core.ErrInvalid, "its description is longer than %d bytes", maxConfig)
	}
	return image, err
}

// maxConfig bounds an image's description, which is read into memory, in bytes.
const maxConfig = 16 << 20

// store unpacks an image's layers, each once, and puts them together. What it has made is kept
// once all is whole; before, it is in a folder of its own, which goes when anything fails.
func (b *Backend) store(ctx context.Context, image v1.Image, tell tell) (refRecord, error) {
	digest, err := image.ConfigName()
	if err != nil {
		return refRecord{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return refRecord{}, err
	}
	rec, err := recordOf(digest, config)
	if err != nil {
		return refRecord{}, err
	}
	if _, err := b.readImage("", rec.Digest); err == nil {
		return rec, nil
	}
	temp, err := b.newScratch(ctx)
	if err != nil {
		return refRecord{}, err
	}
	defer b.release(temp)
	layers, err := b.unpackLayers(ctx, image, config.RootFS.DiffIDs, temp.dir, tell)
	if err != nil {
		return refRecord{}, err
	}
	made := imageRecord{Platform: rec.Platform, Env: cleanEnv(config.Config.Env)}
	for _, id := range config.RootFS.DiffIDs {
		made.Layers = append(made.Layers, id.Hex)
	}
	err = b.assemble(ctx, temp.dir, layers, made, tell)
	if err != nil {
		return refRecord{}, err
	}
	return rec, b.keep(temp.dir, digest.Hex)
}

// recordOf is what there is to know of an image before its layers, if boxes can be made of it.
func recordOf(digest v1.Hash, config *v1.ConfigFile) (refRecord, error) {
	if config.OS != "" && config.OS != "linux" || config.Architecture != "" && config.Architecture != runtime.GOARCH {
		return refRecord{}, core.Errorf(core.ErrUnsupported, "the image is for %s/%s, and boxes here are linux/%s", config.OS, config.Architecture, runtime.GOARCH)
	}
	rec := refRecord{Digest: digest.String(), Platform: "linux/" + runtime.GOARCH}
	if config.Variant != "" {
		rec.Platform += "/" + config.Variant
	}
	return rec, nil
}

// tell is told how far a fetch is: what it does, after "fetching IMAGE", and how many of its steps are done.
type tell func(what string, done, total int)

// What is in an image's scratch folder.
func madeImage(temp string) string      { return filepath.Join(temp, "image") }
func madeLayer(temp, hex string) string { return filepath.Join(temp, "layers", hex) }

// newRoot makes an image's folder there, with an empty root folder in it, which it returns.
func newRoot(temp string) (string, error) {
	root := filepath.Join(madeImage(temp), "root")
	return root, errors.Join(os.Mkdir(madeImage(temp), private), os.Mkdir(root, 0o755)) //nolint:gosec // the folders above it are private
}

// keep moves an image that is whole to its place, and then its layers, which only the next image
// needs: the image has all files itself.
func (b *Backend) keep(temp, hex string) error {
	if err := settled(madeImage(temp), b.folders.image(hex)); err != nil {
		return err
	}
	layers, _ := os.ReadDir(madeLayer(temp, "")) // there may be no new ones
	for _, layer := range layers {
		if err := settled(madeLayer(temp, layer.Name()), b.folders.layer(layer.Name())); err != nil {
			return err
		}
	}
	return nil
}

// cleanEnv drops what is not an environment variable.
func cleanEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.Index(entry, "=") < 1 || strings.Contains(entry, "\x00")
	})
}

// pullError sorts the refusals of registries.
func pullError(ctx context.Context, ref string, err error) error {
	var refused *transport.Error
	var ours *core.Error
	var broken *json.SyntaxError
	switch {
	case errors.As(err, &ours):
		return core.Errorf(ours.Kind, "image %s: %w", ref, err)
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	case errors.As(err, &refused):
		return refusal(ref, refused)
	case strings.Contains(err.Error(), "no child with platform"):
		return core.Errorf(core.ErrUnsupported, "image %s does not exist for linux/%s", ref, runtime.GOARCH)
	case errors.As(err, &broken), errors.Is(err, io.ErrUnexpectedEOF):
		return core.Errorf(core.ErrInvalid, "image %s is damaged: %w", ref, err)
	case kindOf(err) != core.ErrInternal:
		return core.Errorf(kindOf(err), "image %s could not be stored: %w", ref, err)
	}
	return core.Errorf(core.ErrUnavailable, "the registry of image %s cannot be reached: %w", ref, err).
		WithHint("check the network, or name an archive of it in backends.gvisor.settings.images")
}

// refusal is what a registry answered.
func refusal(ref string, err *transport.Error) error {
	switch err.StatusCode {
	case http.StatusNotFound:
		return core.Errorf(core.ErrNotFound, "no registry has image %s", ref).WithHint("check the name and the tag")
	case http.StatusUnauthorized, http.StatusForbidden:
		return core.Errorf(core.ErrNotFound, "image %s does not exist, or its registry wants a login", ref).
			WithHint("check the name; \"docker login\" keeps a login where it is looked for")
	}
	return core.Errorf(core.ErrUnavailable, "the registry of image %s refused: %w", ref, err)
}
