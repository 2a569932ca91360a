package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// trimEvery is how often it is looked how large a download cache is, at most.
const trimEvery = time.Hour

// trims says when the download caches were looked at.
type trims struct {
	mu   sync.Mutex
	last map[string]time.Time // by volume
}

// due reports whether a cache is to be looked at, which is done then.
func (t *trims) due(cache string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, seen := t.last[cache]; seen && now.Sub(last) < trimEvery {
		return false
	}
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	maps.DeleteFunc(t.last, func(_ string, last time.Time) bool { return now.Sub(last) >= trimEvery })
	t.last[cache] = now
	return true
}

// cacheName gives each image a download cache of its own: what the programs of one image wrote is
// not what those of another, better trusted one run. Nor do two backends share one: they differ in
// how well they hold a program in.
func cacheName(instance, backend string, image core.Image) string {
	sum := sha256.Sum256([]byte(backend + "\n" + image.Digest))
	return "boxwright-cache-" + instance + "-" + hex.EncodeToString(sum[:6])
}

// cacheMount is the download cache of an image, as installers' boxes have it.
func (s *Service) cacheMount(on *place, image core.Image) core.Mount {
	return core.Mount{Volume: cacheName(s.ports.Instance, on.name, image), Path: core.GuestCache, Writable: true}
}

// cache is the download cache of an image, which is there.
func (s *Service) cache(ctx context.Context, on *place, image core.Image, labels core.Labels) (core.Mount, error) {
	cache := s.cacheMount(on, image)
	labels.Purpose = core.PurposeCache
	_, err := on.backend.EnsureVolume(ctx, core.Volume{Name: cache.Volume, Labels: labels})
	return cache, err
}

// trimCache has the download cache of an image kept within its bounds, if that was not looked at lately: in a box
// without network.
func (s *Service) trimCache(ctx context.Context, on *place, image core.Image) error {
	if !s.ports.Installer.Trims() || !s.trims.due(cacheName(s.ports.Instance, on.name, image), s.ports.Now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.settings.InstallLimit)
	defer cancel()
	cache, err := s.cache(ctx, on, image, core.Labels{Instance: s.ports.Instance, Server: s.ports.Server})
	if err != nil {
		return err
	}
	spec := core.BoxSpec{
		Image: image.Ref, Digest: image.Digest, Limits: s.settings.InstallSize, Unenforced: core.UnenforcedWarn,
		Mounts: []core.Mount{cache}, Labels: core.Labels{Purpose: core.PurposeInstall},
	}
	return s.within(ctx, on, spec, func(box *box) error { return s.ports.Installer.Trim(ctx, box.guest) })
}
