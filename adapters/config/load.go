package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/boxwright/boxwright/core"
)

// Source is where settings come from. The zero value gives the defaults.
type Source struct {
	// File is the YAML file. Empty: none.
	File string
	// Explicit says that somebody named the file: then it is an error if it is missing.
	Explicit bool
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// Flags are values of flags by dotted key.
	Flags map[string]string
	// PipConfigs are pip's configuration files, the most important first. nil: pip's usual ones.
	PipConfigs []string
}

// Find returns the file that Load should read: that of BOXWRIGHT_CONFIG, which is explicit, else
// $XDG_CONFIG_HOME/boxwright/config.yaml or config.yml, else "". A file of the working directory is never found by
// itself: editors start servers in projects that somebody else wrote, and settings name executables.
func Find(environ []string) (file string, explicit bool) {
	env := newEnvironment(environ)
	if file = env.get("BOXWRIGHT_CONFIG"); file != "" {
		return file, true
	}
	for _, name := range []string{"config.yaml", "config.yml"} {
		if file = env.xdg("XDG_CONFIG_HOME", ".config", "boxwright", name); isFile(file) {
			return file, false
		}
	}
	return "", false
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// otherSpelling notes that there is a second file, which nobody reads, beside the one that is read.
func otherSpelling(source Source) []string {
	base, yaml := strings.CutSuffix(source.File, ".yaml")
	if other := base + ".yml"; yaml && !source.Explicit && isFile(other) {
		return []string{other + " is not read, as there is " + source.File}
	}
	return nil
}

// setting is a value that some source gives a key.
type setting struct {
	key    key
	value  any
	origin string // "boxwright.yaml:12", "BOXWRIGHT_LIMITS_MEMORY"
	note   string // for the log, if the setting takes effect
}

// layer is what one source gives, and what is wrong with it.
type layer struct {
	settings []setting
	faults   []error
	notes    []string
}

// add checks a value and takes it in, or the fault that it has. An empty one counts as not set where
// that means what the host or the environment gives.
func (l *layer) add(s setting) {
	if s.key.fallsBack && isEmpty(s.value) {
		return
	}
	if why := s.key.check(s.value); why != "" {
		l.faultf("", "%s: %s %s%s", s.origin, s.key.name, why, s.key.got(s.value))
		return
	}
	l.settings = append(l.settings, s)
}

func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == "" || isList && len(list) == 0
}

func (l *layer) faultf(hint, format string, args ...any) {
	fault := core.Errorf(core.ErrInvalid, format, args...)
	if hint != "" {
		fault = fault.WithHint("did you mean %s?", hint)
	}
	l.faults = append(l.faults, fault)
}

// got names the faulty value, unless it may hold a secret.
func (k key) got(value any) string {
	text, isText := value.(string)
	switch {
	case k.form == formSecret || !k.isText() || k.form == formList:
		return ""
	case isText && len(text) > 100:
		return ""
	case isText:
		return fmt.Sprintf(", not %q", text)
	case value == nil:
		return ", not nothing"
	}
	switch value.(type) {
	case []any:
		return ", not a list"
	case map[string]any:
		return ", not a table"
	}
	return fmt.Sprintf(", not %v", value)
}

// Load reads all sources and returns the settings, complete and checked. Its error joins one
// core.ErrInvalid sentence for each fault.
func Load(source Source) (Config, error) {
	keys, env := newSchema(), newEnvironment(source.Environ)
	layers := []layer{
		hostLayer(keys, env, source.PipConfigs),
		fileLayer(keys, env, source),
		aliasLayer(keys, env),
		environmentLayer(keys, env),
		flagLayer(keys, env, source.Flags),
	}
	var faults []error
	for _, l := range layers {
		faults = append(faults, l.faults...)
	}
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	c, err := merge(layers)
	if err != nil {
		return Config{}, err
	}
	c.Notes = append(c.Notes, otherSpelling(source)...)
	if err := c.fillFolders(env); err != nil {
		return Config{}, err
	}
	if err := c.readSecrets(); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// readSecrets takes what settings hold that name files.
func (c *Config) readSecrets() error {
	p := &c.Storage.Postgres
	if p.URLFile == "" || c.Storage.Database != DatabasePostgres {
		return nil
	}
	if !p.URL.IsZero() {
		return core.Errorf(core.ErrInvalid, "storage.postgres.url and storage.postgres.url_file are both set, but only one can count")
	}
	text, err := readBounded(p.URLFile, maxSecret)
	if err != nil {
		return core.Errorf(core.ErrInvalid, "storage.postgres.url_file cannot be read: %w", err)
	}
	p.URL = NewSecret(strings.TrimSpace(string(text)))
	return nil
}

// maxSecret bounds a file with one secret, in bytes.
const maxSecret = 64 << 10

// merge lays the layers over the defaults; the last one that has a key wins.
func merge(layers []layer) (Config, error) {
	merged := koanf.New(".")
	winners := map[string]setting{}
	c := Default()
	for _, l := range layers {
		values := map[string]any{}
		for _, s := range l.settings {
			values[s.key.name] = s.value
			winners[s.key.name] = s
		}
		if err := merged.Load(confmap.Provider(values, "."), nil); err != nil {
			return Config{}, core.Errorf(core.ErrInternal, "settings cannot be merged: %w", err)
		}
		c.Notes = append(c.Notes, l.notes...)
	}
	for _, k := range sortedKeys(winners) {
		if note := winners[k].note; note != "" {
			c.Notes = append(c.Notes, note)
		}
	}
	err := merged.UnmarshalWithConf("", &c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		DecodeHook: mapstructure.TextUnmarshallerHookFunc(), ErrorUnused: true, ZeroFields: true, TagName: "koanf",
	}})
	if err != nil {
		return Config{}, core.Errorf(core.ErrInternal, "settings cannot be decoded: %w", err)
	}
	return c, nil
}

// fillFolders sets the folders that nobody set.
func (c *Config) fillFolders(env environment) error {
	if c.Storage.Dir == "" {
		c.Storage.Dir = env.xdg("XDG_STATE_HOME", ".local/state", "boxwright")
	}
	if c.Storage.Dir == "" {
		return core.Errorf(core.ErrInvalid, "there is no state folder, as neither XDG_STATE_HOME nor HOME is set").
			WithHint("set storage.dir")
	}
	if c.Files.Dir == "" {
		c.Files.Dir = filepath.Join(c.Storage.Dir, "files")
	}
	return nil
}

// locate makes a path absolute: ~ is the home folder, and relative ones are below base.
func locate(path, base string, env environment) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && env.get("HOME") != "" {
		return filepath.Join(env.get("HOME"), rest)
	}
	if path == "" || path == NoFiles || filepath.IsAbs(path) {
		return path
	}
	if abs, err := filepath.Abs(filepath.Join(base, path)); err == nil {
		return abs
	}
	return path
}
