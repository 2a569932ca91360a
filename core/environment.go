package core

import "time"

// Environment is an installed set of requirements, immutable once it is in the index.
type Environment struct {
	Key     string // of backend, image, installer and requirements
	Backend string
	Volume  string
	Names   []string // the requirements as asked for
	Report  string   // the installer's last lines
	Created time.Time
}
