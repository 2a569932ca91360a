package config

import "github.com/boxwright/boxwright/core"

// Keep says how long installed packages stay, and how many.
type Keep struct {
	// MaxSize bounds all installed packages on one backend together, in bytes; the least recently used go first.
	// 0: no bound.
	MaxSize Size `koanf:"max_size"`
	// MaxAge is how long those stay that nobody uses. 0: for ever.
	MaxAge Duration `koanf:"max_age"`
}

// WarmSet is a set of packages that are installed before a run asks for just these.
type WarmSet struct {
	// Image is that of the runs. Empty: that of a run that names none.
	Image string `koanf:"image"`
	// Packages are written as a run's dependencies.
	Packages []string `koanf:"packages"`
	// Origin is where the set stands, for messages; no key of a file.
	Origin string `koanf:"origin"`
}

// WarmSets returns dependencies.warm as the use cases understand it. There are none where nothing may be
// installed.
func (d Dependencies) WarmSets() []core.EnvironmentSet {
	if !d.Enabled {
		return nil
	}
	var sets []core.EnvironmentSet
	for _, w := range d.Warm {
		sets = append(sets, core.EnvironmentSet{Image: w.Image, Packages: w.Packages})
	}
	return sets
}

// Policy is what requirements may be.
func (d Dependencies) Policy() core.RequirementPolicy {
	return core.RequirementPolicy{Links: d.DirectURLs, Builds: d.AllowSourceBuilds}
}

func (v *validator) keep(k Keep) {
	v.check(k.MaxSize >= 0, "dependencies.keep.max_size is %s, but must not be below 0", k.MaxSize)
	v.check(k.MaxAge >= 0, "dependencies.keep.max_age is %s, but must not be below 0", k.MaxAge)
}

// warm checks that each set can be asked for. Whether its image may be used depends on the backend.
func (v *validator) warm(d Dependencies) {
	for _, w := range d.Warm {
		requirements, err := d.Policy().Parse(w.Packages)
		v.under(w.Origin, err)
		v.check(err != nil || len(requirements) > 0, "%s: it names no packages", w.Origin)
		if w.Image != "" {
			_, err := core.NormalizeImage(w.Image)
			v.under(w.Origin, err)
		}
	}
}
