package pluginhost

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// Installed returns nil if there is an executable to start, and else what is missing.
func Installed(cfg Config) error {
	if cfg.Plugin == "" {
		cfg.Plugin = cfg.Name
	}
	paths := candidates(cfg)
	for _, path := range paths {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			return nil // whatever is wrong with it is told by the start
		}
	}
	return core.Errorf(core.ErrUnavailable, "it is not installed").
		WithHint("its plugin would be %s", strings.Join(paths, ", "))
}

// find returns the path of the plugin's executable.
func find(cfg Config) (string, error) {
	if strings.ContainsAny(cfg.Plugin, "/\\\x00") || cfg.Plugin == "" {
		return "", core.Errorf(core.ErrInvalid, "%q is not a name of a backend", cfg.Plugin)
	}
	var tried []string
	for _, path := range candidates(cfg) {
		reason := unusable(path)
		if reason == "" {
			return path, nil
		}
		tried = append(tried, path+" ("+reason+")")
	}
	return "", core.Errorf(core.ErrUnavailable, "the backend plugin %s was not found; tried %s", cfg.Plugin, strings.Join(tried, ", ")).
		WithHint("put boxwright-backend-%s beside the server's executable, or name its path in the config", cfg.Plugin)
}

func candidates(cfg Config) []string {
	if cfg.Path != "" {
		return []string{cfg.Path}
	}
	file := "boxwright-backend-" + cfg.Plugin
	self, err := os.Executable()
	if err != nil {
		return nil // a folder that is not certain is none to start programs from
	}
	return []string{filepath.Join(filepath.Dir(self), file)}
}

// unusable says why path cannot be started; "" if it can.
func unusable(path string) string {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return "not there"
	case err != nil:
		return "cannot be read"
	case info.IsDir():
		return "a folder"
	case info.Mode()&0o111 == 0:
		return "not executable"
	}
	return ""
}
