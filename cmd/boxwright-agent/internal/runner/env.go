package runner

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// BaseEnv makes the environment of everything in the box from the agent's own, which is the image's:
// what an image sets for its own programs stays, what an engine adds about its network does not.
func BaseEnv(own []string) map[string]string {
	env := map[string]string{"PATH": usualPath, "LANG": "C.UTF-8"}
	for _, pair := range own {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" && !engines(name) && value != "" {
			env[name] = value
		}
	}
	maps.Copy(env, map[string]string{
		"HOME":                    core.GuestHome,
		"TMPDIR":                  core.GuestTmp,
		"MPLBACKEND":              "Agg",
		"PYTHONDONTWRITEBYTECODE": "1",
	})
	return env
}

func engines(name string) bool {
	switch strings.ToUpper(name) {
	case "HOSTNAME", "TERM", "PWD", "OLDPWD", "SHLVL", "CONTAINER",
		"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY":
		return true
	}
	return strings.HasPrefix(name, "BOXWRIGHT_") || strings.HasPrefix(name, "KUBERNETES_") ||
		strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}

// environment is what one run gets: the base, the folders of its packages, what the caller adds.
func environment(base map[string]string, spec core.RunSpec) map[string]string {
	env := maps.Clone(base)
	var bins []string
	for _, folder := range spec.PythonPath {
		bins = append(bins, filepath.Join(folder, "bin"))
	}
	bins = slices.DeleteFunc(bins, func(bin string) bool {
		info, err := os.Stat(bin)
		return err != nil || !info.IsDir()
	})
	env["PATH"] = join(append(bins, env["PATH"]))
	if path := join(append(slices.Clone(spec.PythonPath), env["PYTHONPATH"])); path != "" {
		env["PYTHONPATH"] = path
	}
	maps.Copy(env, spec.Env)
	return env
}

func join(folders []string) string {
	return strings.Join(slices.DeleteFunc(folders, func(f string) bool { return f == "" }), ":")
}

// Pairs turns an environment into what the kernel takes, in order.
func Pairs(env map[string]string) []string {
	pairs := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		pairs = append(pairs, name+"="+env[name])
	}
	return pairs
}
