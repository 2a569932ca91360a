package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	"github.com/boxwright/boxwright/core"
)

// Auto as backend takes the first that works of AutoBackends.
const Auto = "auto"

// AutoBackends lists the backends that auto tries, the most preferred first.
func AutoBackends() []string { return []string{"docker", "podman", "gvisor"} }

// Route sends the runs that match all of its conditions to a backend.
type Route struct {
	// Image is a pattern as in images.allow.
	Image string `koanf:"image"`
	// Language is that of the code: python.
	Language string `koanf:"language"`
	// Backend is the name of the backend.
	Backend string `koanf:"backend"`
	// Origin is where the route stands, for messages; no key of a file.
	Origin string `koanf:"origin"`
}

// Core returns the route as the use cases understand it.
func (r Route) Core() core.Route {
	return core.Route{Image: r.Image, Language: core.Language(r.Language), Backend: r.Backend}
}

// CoreRoutes returns all routes as the use cases understand them.
func (c Config) CoreRoutes() core.Routes {
	var routes core.Routes
	for _, r := range c.Routes {
		routes = append(routes, r.Core())
	}
	return routes
}

// Preferred lists the backends of which the first that works is the default. One that the operator
// names is the only one.
func (c Config) Preferred() []string {
	if c.Backend == Auto {
		return AutoBackends()
	}
	return []string{c.Backend}
}

// Choices lists the backends that clients may choose from: those that the operator names, if there
// are several.
func (c Config) Choices() []string {
	names := c.named()
	if len(names) < 2 {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}

// Known lists the backends that there are, by name.
func (c Config) Known() []string {
	names := c.named()
	for _, name := range AutoBackends() {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (c Config) named() map[string]bool {
	names := map[string]bool{}
	for name := range c.Backends {
		names[name] = true
	}
	if c.Backend != Auto {
		names[c.Backend] = true
	}
	return names
}

// PluginOf is the name of the plugin of a backend.
func (c Config) PluginOf(backend string) string { return cmp.Or(c.Backends[backend].Plugin, backend) }

// backend refuses a default that is not listed where it looks like a slip of the pen. Any other may be a
// plugin that lies beside the server.
func (v *validator) backend(c Config) {
	v.check(isName(c.Backend), "backend is %q, which cannot be a backend's name", c.Backend)
	listed := append(slices.Sorted(maps.Keys(c.Backends)), append(AutoBackends(), Auto)...)
	if slices.Contains(listed, c.Backend) {
		return
	}
	if near := suggest(c.Backend, listed, "."); near != "" {
		fault := core.Errorf(core.ErrInvalid, "backend is %q, which is not among backends", c.Backend)
		v.faults = append(v.faults, fault.WithHint("did you mean %s? if not, add it to backends", near))
	}
}

func (v *validator) backends(backends map[string]Backend) {
	pin := regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	variable := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(?:=|$)`)
	for _, name := range sortedKeys(backends) {
		b := backends[name]
		v.check(name != Auto, "backends.%s cannot be a backend's name, as backend: %s means the first that works", name, name)
		v.check(b.Plugin == "" || isName(b.Plugin), "backends.%s.plugin is %q, which cannot be a plugin's name", name, b.Plugin)
		v.check(b.SHA256 == "" || pin.MatchString(b.SHA256), "backends.%s.sha256 must be 64 hexadecimal digits", name)
		for _, entry := range b.Env {
			v.check(variable.MatchString(entry), "backends.%s.env must hold names of variables, or NAME=VALUE", name)
		}
	}
}

// routes checks that each route can match, and leads somewhere.
func (v *validator) routes(c Config) {
	known := c.Known()
	for _, r := range c.Routes {
		if err := r.Core().Validate(c.Interpreters().Names()); err != nil {
			v.under(r.Origin, err)
			continue
		}
		if slices.Contains(known, r.Backend) {
			continue
		}
		fault := core.Errorf(core.ErrInvalid, "%s: there is no backend %q", r.Origin, r.Backend)
		hint := "add it to backends"
		if near := suggest(r.Backend, known, "."); near != "" {
			hint = "did you mean " + near + "?"
		}
		v.faults = append(v.faults, fault.WithHint("%s", hint))
	}
}
