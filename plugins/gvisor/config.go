package gvisor

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// Settings is the plugin's section of the operator's config. The zero value works on a machine
// that has runsc and a Python 3.
type Settings struct {
	Runsc         string            `json:"runsc"`           // gVisor's executable; "" looks beside the plugin, then in PATH
	Dir           string            `json:"dir"`             // where boxes, volumes and images are kept; "" is below the user's state and cache folders
	Images        map[string]string `json:"images"`          // archives by image name: a "docker save" file or an OCI layout's folder
	DefaultImage  string            `json:"default_image"`   // of runs for which nobody names one; "" is "host"
	Platform      string            `json:"platform"`        // how runsc intercepts system calls: systrap, ptrace or kvm; "" is runsc's default
	MaxImageBytes int64             `json:"max_image_bytes"` // of one image, unpacked; 0 is 16 GiB
	MaxCacheBytes int64             `json:"max_cache_bytes"` // of all images, a layer of several counted once; those not used for longest go; 0 is 64 GiB
	ImageDays     int               `json:"image_days"`      // images go that no box was made of for so long; 0 is 90 days
}

// What bounds images when nobody says otherwise.
const (
	defaultMaxImage  = 16 << 30
	defaultMaxCache  = 64 << 30
	defaultImageDays = 90
	mostImageDays    = 36500
)

func decodeSettings(raw json.RawMessage) (Settings, error) {
	var s Settings
	if err := sdk.DecodeSettings(raw, &s); err != nil {
		return Settings{}, err
	}
	return s.complete()
}

// complete checks the settings and fills in the defaults. The images' names become normal ones.
func (s Settings) complete() (Settings, error) {
	for what, file := range map[string]string{"runsc": s.Runsc, "dir": s.Dir} {
		if file != "" && !filepath.IsAbs(file) {
			return s, core.Errorf(core.ErrInvalid, "settings.%s must be an absolute path, not %q", what, file)
		}
	}
	if s.Platform != "" && !slices.Contains(platforms(), s.Platform) {
		return s, core.Errorf(core.ErrInvalid, "settings.platform is %q; it can be %s", s.Platform, strings.Join(platforms(), ", "))
	}
	for what, n := range map[string]int64{"max_image_bytes": s.MaxImageBytes, "max_cache_bytes": s.MaxCacheBytes, "image_days": int64(s.ImageDays)} {
		if n < 0 {
			return s, core.Errorf(core.ErrInvalid, "settings.%s cannot be negative", what)
		}
	}
	s.MaxImageBytes = cmp.Or(s.MaxImageBytes, defaultMaxImage)
	s.MaxCacheBytes = cmp.Or(s.MaxCacheBytes, defaultMaxCache)
	s.ImageDays = min(cmp.Or(s.ImageDays, defaultImageDays), mostImageDays)
	if s.DefaultImage == "" {
		s.DefaultImage = core.ImageHost
	}
	if _, err := core.NormalizeImage(s.DefaultImage); err != nil {
		return s, err
	}
	return s.withNormalImages()
}

func (s Settings) withNormalImages() (Settings, error) {
	normal := map[string]string{}
	for ref, file := range s.Images {
		name, err := core.NormalizeImage(ref)
		switch {
		case err != nil:
			return s, err
		case name == core.ImageHost || strings.Contains(name, "@"):
			return s, core.Errorf(core.ErrInvalid, "settings.images cannot have the key %q: it takes a name and a tag", ref)
		case !filepath.IsAbs(file):
			return s, core.Errorf(core.ErrInvalid, "settings.images.%s must be an absolute path, not %q", ref, file)
		}
		normal[name] = filepath.Clean(file)
	}
	s.Images = normal
	return s, nil
}
