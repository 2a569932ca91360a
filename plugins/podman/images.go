//go:build remote && containers_image_openpgp

package podman

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

const (
	digestPrefix    = "sha256:"
	localHost       = "localhost" // where Podman puts images that no registry gave a name
	defaultRegistry = "docker.io"
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
		have, err := e.inspectRef(ctx, name)
		if err == nil {
			return e.describe(ref, have), nil
		}
		if core.KindOf(err) != core.ErrNotFound {
			return core.Image{}, err
		}
		if policy == core.PullNever {
			return core.Image{}, core.Errorf(core.ErrNotFound, "image %s is not in the engine, and the pull policy is never", name).
				WithHint("fetch it with \"podman pull %s\", or set the pull policy to missing", fullName(name))
		}
	}
	err = b.pulls.Do(ctx, name, progress, func(ctx context.Context, report func(core.Progress)) error {
		return e.pull(ctx, name, report)
	})
	if err != nil {
		return core.Image{}, err
	}
	have, err := e.inspect(ctx, fullName(name))
	if err != nil {
		return core.Image{}, err
	}
	return e.describe(ref, have), nil
}

func (e *engine) describe(ref string, have imageState) core.Image {
	return core.Image{Ref: ref, Digest: digestPrefix + have.ID, Platform: have.OS + "/" + have.Architecture}
}

// localNames are the names under which an image may be here, the likeliest first. Podman itself
// would also look where the host's registries.conf says, which differs from host to host.
func localNames(name string) []string {
	full := fullName(name)
	if short, isShort := strings.CutPrefix(full, defaultRegistry+"/"); isShort {
		return []string{localHost + "/" + strings.TrimPrefix(short, "library/"), full}
	}
	return []string{full}
}

// fullName names the registry, so that the engine need not guess one or ask a person. Podman
// takes no name with a tag and a digest; the digest says more.
func fullName(name string) string {
	repository, digest, hasDigest := strings.Cut(name, "@")
	if hasDigest {
		if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
			repository = repository[:i]
		}
		name = repository + "@" + digest
	}
	first, _, more := strings.Cut(name, "/")
	switch {
	case more && (strings.ContainsAny(first, ".:") || first == localHost):
		return name
	case more:
		return defaultRegistry + "/" + name
	}
	return defaultRegistry + "/library/" + name
}

// pull fetches an image. A registry on the engine's own loopback may speak plain HTTP.
func (e *engine) pull(ctx context.Context, ref string, report func(core.Progress)) error {
	report(core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref})
	defer whileItLasts(ctx, func(sofar time.Duration) {
		report(core.Progress{Phase: core.PhaseImage, Message: fmt.Sprintf("fetching %s: %s so far", ref, sofar)})
	})()
	lines := &lineWriter{each: func(line string) {
		report(core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref + ": " + line})
	}}
	options := new(images.PullOptions).WithProgressWriter(lines).WithSkipTLSVerify(isLoopback(ref))
	_, err := images.Pull(e.use(ctx), fullName(ref), options)
	if err == nil && ctx.Err() == nil {
		return nil
	}
	if ctx.Err() != nil {
		return core.ContextError(ctx)
	}
	if refused := daemon.PullError(ref, e.facts().platform(), "podman", err); refused != nil {
		return refused
	}
	return e.fail(ctx, err, "image %s could not be fetched", ref)
}

// Podman says a line when a layer begins and nothing until the next one does. A slow one is given
// patienceWithLayers; signs of life end then, and whoever waits may take the registry for dead.
const (
	lifeSign           = 30 * time.Second
	patienceWithLayers = 30 * time.Minute
)

// whileItLasts tells now and then how long something has taken, until stop.
func whileItLasts(ctx context.Context, tell func(sofar time.Duration)) (stop func()) {
	ctx, stop = context.WithTimeout(ctx, patienceWithLayers)
	go func() {
		ticker := time.NewTicker(lifeSign)
		defer ticker.Stop()
		for began := time.Now(); ; {
			select {
			case <-ticker.C:
				tell(time.Since(began).Round(time.Second))
			case <-ctx.Done():
				return
			}
		}
	}()
	return stop
}

func isLoopback(ref string) bool {
	host, _, _ := strings.Cut(ref, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address := net.ParseIP(host)
	return host == localHost || address != nil && address.IsLoopback()
}

// lineWriter calls each with the lines that are written to it, shortened.
type lineWriter struct {
	each func(string)
	rest []byte
}

const maxLine = 120

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			w.rest = w.rest[:min(len(w.rest), maxLine)]
			return len(p), nil
		}
		if line := strings.TrimSpace(strings.ToValidUTF8(string(w.rest[:min(i, maxLine)]), "")); line != "" {
			w.each(line)
		}
		w.rest = w.rest[i+1:]
	}
}
