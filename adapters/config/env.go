package config

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const envPrefix = "BOXWRIGHT_"

// reservedVariables are BOXWRIGHT_* names that are no settings: BOXWRIGHT_CONFIG names the file;
// the others belong to tests and to plugins. One that ends in _ stands for all that begin so.
func reservedVariables() []string {
	return []string{
		"BOXWRIGHT_CONFIG", "BOXWRIGHT_REQUIRE", "BOXWRIGHT_CACHE", "BOXWRIGHT_PLUGIN",
		"BOXWRIGHT_INSPECTOR", "BOXWRIGHT_INSPECTOR_", "BOXWRIGHT_CLIENT_", "BOXWRIGHT_TEST_",
	}
}

// environment is the process's variables by name.
type environment map[string]string

func newEnvironment(environ []string) environment {
	env := environment{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

func (e environment) get(name string) string { return e[name] }

// first returns the first of the variables that is not empty, and its name.
func (e environment) first(names ...string) (name, value string) {
	for _, name = range names {
		if value = e[name]; value != "" {
			return name, value
		}
	}
	return "", ""
}

// xdg is a path below one of the user's base folders, or "" when there is none.
func (e environment) xdg(variable, below string, path ...string) string {
	base := e[variable]
	if !filepath.IsAbs(base) { // the specification says that others count as not set
		if e["HOME"] == "" {
			return ""
		}
		base = filepath.Join(e["HOME"], below)
	}
	return filepath.Join(append([]string{base}, path...)...)
}

// environmentLayer reads the BOXWRIGHT_* variables. An empty one counts as not set.
func environmentLayer(keys schema, env environment) layer {
	var l layer
	for _, name := range sortedKeys(env) {
		if !strings.HasPrefix(name, envPrefix) || isReserved(name) {
			continue
		}
		k, ok := keys.findVariable(name)
		switch {
		case !ok:
			l.faultf(keys.nearestVariable(name), "environment variable %s is not a setting", name)
		case env[name] != "":
			l.add(textSetting(k, env[name], name, env))
		}
	}
	return l
}

func isReserved(name string) bool {
	return slices.ContainsFunc(reservedVariables(), func(reserved string) bool {
		return name == reserved || strings.HasSuffix(reserved, "_") && strings.HasPrefix(name, reserved)
	})
}

// textSetting is a setting whose value comes as text, as variables and flags give it.
func textSetting(k key, text, origin string, env environment) setting {
	if k.form == formPath && !strayQuotes(text) {
		text = locate(text, "", env)
	}
	return setting{key: k, value: k.fromText(text), origin: origin}
}

// findVariable returns the key of an environment variable.
func (s schema) findVariable(variable string) (key, bool) {
	for _, k := range s {
		if !k.isText() {
			continue
		}
		if k.variable() == variable {
			return k, !strings.Contains(k.name, anyName)
		}
		before, after, some := strings.Cut(k.variable(), "_"+anyName+"_")
		name, isBackend := strings.CutPrefix(variable, before+"_")
		name, isThis := strings.CutSuffix(name, "_"+after)
		if some && isBackend && isThis {
			backend := strings.ReplaceAll(strings.ToLower(name), "_", "-")
			return s.find(strings.Replace(k.name, anyName, backend, 1))
		}
	}
	return key{}, false
}

func (s schema) nearestVariable(name string) string {
	var candidates []string
	for _, k := range s {
		if k.isText() {
			candidates = append(candidates, k.variable())
		}
	}
	return suggest(name, candidates, "_")
}

// flagLayer reads the values of flags. They are checked as the environment's are.
func flagLayer(keys schema, env environment, flags map[string]string) layer {
	var l layer
	for _, name := range sortedKeys(flags) {
		k, ok := keys.find(name)
		if !ok || !k.isText() {
			l.faultf(keys.nearest(name), "flag: %s is not a setting", name)
			continue
		}
		l.add(textSetting(k, flags[name], "flag", env))
	}
	return l
}

// aliasReader reads the variables of the older program.
type aliasReader struct {
	layer
	keys schema
	env  environment
}

// aliasLayer takes the older program's variables for what they mean here.
func aliasLayer(keys schema, env environment) layer {
	r := aliasReader{keys: keys, env: env}
	r.alias("SANDBOX_MEMORY_LIMIT", "limits.memory")
	r.cpu()
	r.alias("SANDBOX_CPU_LIMIT", "limits.cpus")
	if dir, set := env["SANDBOX_FILES_DIR"]; set && strings.TrimSpace(dir) == "" {
		r.set("SANDBOX_FILES_DIR", "files.dir", NoFiles)
	} else {
		r.alias("SANDBOX_FILES_DIR", "files.dir")
	}
	r.listen()
	r.pipCache()
	r.logLevel()
	return r.layer
}

func (r *aliasReader) alias(variable, name string) {
	if value := r.env[variable]; value != "" {
		r.set(variable, name, value)
	}
}

func (r *aliasReader) set(variable, name, value string) {
	k, _ := r.keys.find(name)
	s := textSetting(k, value, variable, r.env)
	s.note = name + " is set by the older name " + variable
	r.add(s)
}

// cpu reads the scheduler's period and quota, in microseconds, as a number of processors.
func (r *aliasReader) cpu() {
	const quotaName, periodName = "SANDBOX_CPU_QUOTA", "SANDBOX_CPU_PERIOD"
	quotaText, periodText := r.env[quotaName], r.env[periodName]
	if periodText == "" {
		periodText = "100000"
	}
	if quotaText == "" {
		if r.env[periodName] != "" {
			r.notes = append(r.notes, periodName+" was ignored, as "+quotaName+" is not set")
		}
		return
	}
	quota, quotaErr := strconv.ParseInt(quotaText, 10, 64)
	period, periodErr := strconv.ParseInt(periodText, 10, 64)
	if quotaErr != nil || periodErr != nil || quota <= 0 || period <= 0 {
		r.faultf("", "%s and %s must be whole numbers of microseconds, not %q and %q", quotaName, periodName, quotaText, periodText)
		return
	}
	r.set(quotaName, "limits.cpus", strconv.FormatFloat(float64(quota)/float64(period), 'g', -1, 64))
}

// listen reads the host and the port that the older program listened at. Either may be left out.
func (r *aliasReader) listen() {
	const hostName, portName = "APP_HOST", "APP_PORT"
	name, _ := r.env.first(hostName, portName)
	if name == "" {
		return
	}
	host, port, _ := net.SplitHostPort(defaultHTTP().Listen)
	if given := strings.Trim(r.env[hostName], "[]"); given != "" {
		host = given
	}
	if given := r.env[portName]; given != "" {
		port = given
	}
	r.set(name, "http.listen", net.JoinHostPort(host, port))
}

// pipCache: where downloads are kept is not the operator's concern any more, but whether they are still is.
func (r *aliasReader) pipCache() {
	const path, enable = "PIP_CACHE_PATH", "ENABLE_PIP_CACHE"
	if r.env[path] != "" {
		r.notes = append(r.notes, path+" has no meaning any more and was ignored: downloads are kept in a volume of their own")
	}
	switch strings.ToLower(r.env[enable]) {
	case "":
	case "false", "0", "no", "off":
		r.set(enable, "dependencies.cache", "false")
	case "true", "1", "yes", "on":
		r.set(enable, "dependencies.cache", "true")
	default:
		r.notes = append(r.notes, enable+" was ignored, as it is neither true nor false")
	}
}

// logLevel is lenient: many programs read this variable, each with levels of its own.
func (r *aliasReader) logLevel() {
	level := strings.ToLower(r.env["LOG_LEVEL"])
	switch level {
	case "":
		return
	case "warning":
		level = "warn"
	case "critical", "fatal":
		level = "error"
	}
	if k, _ := r.keys.find("log.level"); k.check(level) != "" {
		r.notes = append(r.notes, "LOG_LEVEL was ignored: log.level must be "+k.wants())
		return
	}
	r.set("LOG_LEVEL", "log.level", level)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
