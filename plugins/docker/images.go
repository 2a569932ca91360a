package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/boxwright/boxwright/core"
)

// progressInterval is how often a caller hears of a pull.
const progressInterval = 200 * time.Millisecond

// EnsureImage implements execution.Backend.
func (b *Backend) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	name, err := core.NormalizeImage(ref)
	if err != nil {
		return core.Image{}, err
	}
	if policy != core.PullMissing && policy != core.PullAlways && policy != core.PullNever {
		return core.Image{}, core.Errorf(core.ErrInvalid, "%q is not a pull policy", string(policy))
	}
	e, err := b.finder.engine(ctx)
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
	if err := b.pulls.pull(ctx, e, name, progress); err != nil {
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

// pulls lets all who want one image at the same time share its fetch.
type pulls struct {
	mu      sync.Mutex
	running map[string]*pull
}

// pull is one fetch. It is cancelled when nobody waits for it any more.
type pull struct {
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // valid once done is closed
	waiters int   // guarded by pulls.mu

	mu  sync.Mutex
	now core.Progress
}

func (p *pulls) pull(ctx context.Context, e *engine, ref string, progress func(core.Progress)) error {
	running := p.join(ctx, e, ref)
	defer p.leave(ref, running)
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-running.done:
			return running.err
		case <-ctx.Done():
			return ended(ctx)
		case <-ticker.C:
			if progress != nil {
				progress(running.progress())
			}
		}
	}
}

func (p *pulls) join(ctx context.Context, e *engine, ref string) *pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	running, ok := p.running[ref]
	if !ok {
		// The fetch outlives the caller that happened to come first.
		pullCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		running = &pull{cancel: cancel, done: make(chan struct{})}
		running.now = core.Progress{Phase: core.PhaseImage, Message: "fetching " + ref}
		if p.running == nil {
			p.running = map[string]*pull{}
		}
		p.running[ref] = running
		go func() {
			defer cancel()
			running.err = running.fetch(pullCtx, e, ref)
			p.forget(ref, running)
			close(running.done)
		}()
	}
	running.waiters++
	return running
}

func (p *pulls) leave(ref string, running *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running.waiters--
	if running.waiters == 0 {
		running.cancel()
		if p.running[ref] == running {
			delete(p.running, ref)
		}
	}
}

func (p *pulls) forget(ref string, running *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[ref] == running {
		delete(p.running, ref)
	}
}

func (p *pull) progress() core.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
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

func (p *pull) fetch(ctx context.Context, e *engine, ref string) error {
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
		p.follow(ref, layers, m)
	}
}

// follow sums the bytes of all layers. Unpacking counts nothing: its bytes are the same again.
func (p *pull) follow(ref string, layers map[string]message, m message) {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = sum
}

// pullError sorts a registry's refusals, of which the engine passes on only the text.
func (e *engine) pullError(ctx context.Context, ref string, err error) error {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case has("no matching manifest"):
		return core.Errorf(core.ErrUnsupported, "image %s does not exist for this engine's platform (%s/%s)", ref, e.facts.info.OSType, e.facts.arch)
	case has("pull access denied", "requested access to the resource is denied"):
		return core.Errorf(core.ErrNotFound, "image %s does not exist, or its registry wants a login", ref).
			WithHint("check the name; a local image is used as it is, without a registry")
	case has("manifest unknown", "manifest for", "not found", "name unknown"):
		return core.Errorf(core.ErrNotFound, "no registry has image %s", ref).WithHint("check the name and the tag")
	case has("unauthorized", "authentication required"):
		return core.Errorf(core.ErrDenied, "the registry of image %s wants a login", ref).
			WithHint("fetch it with the docker command, after \"docker login\"")
	case has("dial tcp", "no such host", "i/o timeout", "connection refused", "TLS handshake", "x509", "Client.Timeout", "proxyconnect"):
		return core.Errorf(core.ErrUnavailable, "the registry of image %s cannot be reached: %w", ref, err).
			WithHint("check the engine's network, or load the image with \"docker load\"")
	}
	return e.fail(ctx, err, "image %s could not be fetched", ref)
}
