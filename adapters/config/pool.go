package config

// Pool says how many boxes wait for a run, started and with their interpreter, so that it begins at once.
type Pool struct {
	// Enabled has boxes wait.
	Enabled bool `koanf:"enabled"`
	// Size is how many boxes for the default image on the default backend always wait.
	Size int64 `koanf:"size"`
	// Max is how many boxes may wait at all, when more is asked for.
	Max int64 `koanf:"max"`
	// MaxMemory bounds what all waiting boxes are taken to use together, in bytes: 32 MiB for each, and
	// 128 MiB more if there are modules to preload. 0: no bound.
	MaxMemory Size `koanf:"max_memory"`
	// IdleTimeout is how long boxes wait for runs of a kind that nobody asks for any more.
	IdleTimeout Duration `koanf:"idle_timeout"`
	// MaxAge is how long a box may wait until another takes its place.
	MaxAge Duration `koanf:"max_age"`
	// Installers is how many installations of packages find boxes that wait for them: two for each, in the image and
	// zone of most runs, and in those of others for as long as they are asked for. 0: none.
	Installers int64 `koanf:"installers"`
	// Preload names the Python modules that a waiting box has imported. Those that the image lacks are left out.
	Preload []string `koanf:"preload"`
}
