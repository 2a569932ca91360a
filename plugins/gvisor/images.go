package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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

// refRecord is what a name means at present.
type refRecord struct {
	Ref      string `json:"ref"`
	Digest   string `json:"digest"`
	Platform string `json:"platform"`
	Source   string `json:"source"` // the archive as it was; "" is a registry
}

// imageRecord is what is known of an unpacked image. It is written last.
type imageRecord struct {
	Platform string   `json:"platform"`
	Env      []string `json:"env"`
	Binds    []string `json:"binds,omitempty"` // see order
	Masks    []string `json:"masks,omitempty"`
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
	if policy != core.PullMissing && policy != core.PullAlways && policy != core.PullNever {
		return core.Image{}, core.Errorf(core.ErrInvalid, "%q is not a pull policy", string(policy))
	}
	if _, err := b.ready(ctx); err != nil {
		return core.Image{}, err
	}
	if name == core.ImageHost {
		image, err := b.hostImage(ctx)
		return image, fail(ctx, err, "the image of this machine's own programs could not be made")
	}
	have, err := b.ensure(ctx, name, policy, progress)
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

func (b *Backend) refFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return b.folders.ref(hex.EncodeToString(sum[:]))
}

// readRef returns what a name means, if that is still here.
func (b *Backend) readRef(name string) (refRecord, error) {
	var rec refRecord
	if err := readJSON(b.refFile(name), &rec); err != nil {
		return rec, err
	}
	_, err := b.readImage(name, rec.Digest)
	return rec, err
}

// fetch gets an image from its archive or registry, and unpacks it.
func (b *Backend) fetch(ctx context.Context, ref, archive, source string, report func(core.Progress)) error {
	report(core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref})
	image, err := b.openImage(ctx, ref, archive)
	if err != nil {
		return pullError(ctx, ref, err)
	}
	unlock, err := b.lockCache(ctx)
	if err != nil {
		return fail(ctx, err, "image %s could not be stored", ref)
	}
	defer unlock()
	rec, err := b.store(ctx, image, func(done, total int64) {
		report(core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref, Done: done, Total: total})
	})
	if err != nil {
		return pullError(ctx, ref, err)
	}
	rec.Ref, rec.Source = ref, source
	return fail(ctx, writeJSON(b.refFile(ref), rec), "image %s could not be stored", ref)
}

func (b *Backend) openImage(ctx context.Context, ref, archive string) (v1.Image, error) {
	if archive != "" {
		return openArchive(ref, archive)
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "image %q cannot be read as a name: %w", ref, err)
	}
	return remote.Image(parsed, remote.WithContext(ctx), remote.WithPlatform(platform()), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// store unpacks an image's layers, each once, and puts them together.
func (b *Backend) store(ctx context.Context, image v1.Image, report func(done, total int64)) (refRecord, error) {
	digest, err := image.ConfigName()
	if err != nil {
		return refRecord{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return refRecord{}, err
	}
	if config.OS != "" && config.OS != "linux" || config.Architecture != "" && config.Architecture != runtime.GOARCH {
		return refRecord{}, core.Errorf(core.ErrUnsupported, "the image is for %s/%s, and boxes here are linux/%s", config.OS, config.Architecture, runtime.GOARCH)
	}
	rec := refRecord{Digest: digest.String(), Platform: "linux/" + runtime.GOARCH}
	if config.Variant != "" {
		rec.Platform += "/" + config.Variant
	}
	if _, err := b.readImage("", rec.Digest); err == nil {
		return rec, nil
	}
	layers, err := b.storeLayers(ctx, image, report)
	if err != nil {
		return refRecord{}, err
	}
	err = b.assemble(ctx, digest.Hex, layers, imageRecord{Platform: rec.Platform, Env: cleanEnv(config.Config.Env)})
	return rec, err
}

// cleanEnv drops what is not an environment variable.
func cleanEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.Index(entry, "=") < 1 || strings.Contains(entry, "\x00")
	})
}

// pullError sorts the refusals of registries and archives.
func pullError(ctx context.Context, ref string, err error) error {
	var refused *transport.Error
	var ours *core.Error
	var broken *json.SyntaxError
	switch {
	case errors.As(err, &ours):
		return core.Errorf(ours.Kind, "image %s: %w", ref, err)
	case ctx.Err() != nil:
		return ended(ctx)
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

// tempFolder makes a folder beside those that it will be moved to. The caller has the cache's lock.
func (b *Backend) tempFolder() (string, error) {
	return os.MkdirTemp(b.folders.scratch(), temporary+"*")
}

// lockCache takes the lock under which images are stored.
func (b *Backend) lockCache(ctx context.Context) (unlock func(), err error) {
	unlock, err = lock(ctx, b.folders.cache)
	if err == nil {
		if err = clearTemporary(b.folders.scratch()); err != nil {
			unlock()
		}
	}
	return unlock, err
}

// settled moves a finished folder to its place. Should somebody have been faster, his stays.
func settled(temp, place string) error {
	err := os.Rename(temp, place)
	if _, statErr := os.Stat(place); err != nil && statErr == nil {
		return nil
	}
	return err
}
