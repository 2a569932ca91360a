package installer

import (
	_ "embed" // the programs that run in the box
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/boxwright/boxwright/core"
)

//go:embed guard.py
var guardProgram string

//go:embed finish.py
var finishProgram string

//go:embed compile.py
var compileProgram string

//go:embed gather.py
var gatherProgram string

// writes is how many times its size an environment may be written: once unpacked, once installed, and as much
// again for downloads and what is built.
const writes = 4

// guarded is a command that ends when it writes too much.
func (j *job) guarded(argv []string) []string { return j.guard("", nil, argv) }

// guardedToTheEnd is one that leaves the packages and nothing else, and fails if they are too many.
func (j *job) guardedToTheEnd(argv []string) []string {
	return j.guard(finishProgram, j.finishing(), argv)
}

// guard is a command with a program that is to follow once it has done its work: in the same process, as a start
// takes longer than what is to be done.
func (j *job) guard(then string, args, argv []string) []string {
	guard := []string{"python3", "-I", "-S", "-c", guardProgram, strconv.FormatInt(writes*j.options.MaxSize, 10), then, strconv.Itoa(len(args))}
	return slices.Concat(guard, args, argv)
}

// finishing is what the program that ends an installation is told.
func (j *job) finishing() []string {
	return []string{core.GuestEnvironment, j.scratch, strconv.FormatInt(j.options.MaxSize, 10)}
}

// uvResolve writes the lock.
func (j *job) uvResolve(uv string) []string {
	argv := []string{
		uv, "pip", "compile", "--python", "python3", "--no-config", "--quiet", "--generate-hashes", "--no-header", "--no-annotate",
		"--output-file", lockFile,
	}
	return slices.Concat(argv, j.uvSources(), []string{requirementsFile})
}

// uvInstall installs what the lock has and nothing else.
func (j *job) uvInstall(uv string, l lock) []string {
	argv := []string{uv, "pip", "install", "--target", core.GuestEnvironment, "--python", "python3", "--no-config", "--no-deps"}
	if l.hashed() {
		argv = append(argv, "--require-hashes")
	}
	return slices.Concat(argv, j.uvSources(), []string{"-r", pinsFile})
}

func (j *job) uvSources() []string {
	var argv []string
	if !j.options.AllowSourceBuilds {
		argv = append(argv, "--only-binary", ":all:")
	}
	return append(argv, j.wheelSources()...)
}

// pipInstall resolves and installs at once, and writes down what it took.
func (j *job) pipInstall() []string {
	return append(j.pip("--target", core.GuestEnvironment, "--report", reportFile), "-r", requirementsFile)
}

// pip is the beginning of an installation.
func (j *job) pip(more ...string) []string {
	argv := []string{
		"python3", "-I", "-m", "pip", "install",
		"--no-input", "--disable-pip-version-check", "--no-warn-script-location", "--no-compile", "--progress-bar", "off",
	}
	if !j.options.AllowSourceBuilds {
		argv = append(argv, "--only-binary=:all:")
	}
	return slices.Concat(argv, j.wheelSources(), more)
}

// wheelSources have no index asked when there is a folder of wheels.
func (j *job) wheelSources() []string {
	if j.options.Wheels == "" {
		return nil
	}
	return []string{"--no-index", "--find-links", j.wheelsDir()}
}

// environment is what both package managers are told: uv reads UV_*, pip PIP_*. Only uv is told of several
// indexes, as pip takes a package from any of them.
func (j *job) environment() map[string]string {
	env := map[string]string{
		"TMPDIR":              j.scratch,
		"UV_CACHE_DIR":        j.cacheDir() + "/uv",
		"PIP_CACHE_DIR":       j.cacheDir() + "/pip",
		"UV_LINK_MODE":        j.linkMode(),
		"UV_NO_PROGRESS":      "1",
		"UV_PYTHON_DOWNLOADS": "never",
		"PIP_CONFIG_FILE":     "/dev/null",
		"GIT_TERMINAL_PROMPT": "0",
		"RUST_LOG":            "uv_extract=warn", // names what it leaves out of a wheel
	}
	o := j.options
	set := func(value string, names ...string) {
		for _, name := range names {
			if value != "" {
				env[name] = value
			}
		}
	}
	indexes := o.Indexes()
	last := len(indexes) - 1
	set(strings.Join(indexes[:last], " "), "UV_INDEX")
	set(indexes[last], "UV_DEFAULT_INDEX")
	set(indexes[0], "PIP_INDEX_URL")
	set(o.trustedHosts(), "PIP_TRUSTED_HOST")
	if o.CABundle != "" {
		set(core.GuestWork+"/"+caFile, "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO")
	}
	set(o.HTTPProxy, "HTTP_PROXY", "http_proxy")
	set(o.HTTPSProxy, "HTTPS_PROXY", "https_proxy")
	set(o.NoProxy, "NO_PROXY", "no_proxy")
	return env
}

// onlyIndex is the environment with one index, for pip.
func (j *job) onlyIndex(index string) map[string]string {
	env := maps.Clone(j.env)
	delete(env, "PIP_INDEX_URL")
	if index != "" {
		env["PIP_INDEX_URL"] = index
	}
	return env
}

// cacheDir is where downloads go: into the cache that installers share, or away with the rest of this one's.
func (j *job) cacheDir() string {
	if j.UsesCache() {
		return core.GuestCache
	}
	return j.scratch + "/cache"
}

// linkMode: the shared cache is on another volume than the environment, a private one is on the same.
func (j *job) linkMode() string {
	if j.UsesCache() {
		return "copy"
	}
	return "hardlink"
}

func (j *job) wheelsDir() string { return j.scratch + "/wheels" }
func (j *job) toolsDir() string  { return j.cacheDir() + "/tools" }
func (j *job) cachedUV() string  { return j.toolsDir() + "/bin/uv" }
