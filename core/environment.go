package core

import "time"

// Environment is an installed set of requirements, immutable once it is in the index.
type Environment struct {
	Key      string // of backend, image, installer and requirements
	Backend  string
	Zone     string // the volume that holds it, among others of the same trust
	Folder   string // in that volume
	Volume   string
	Language Language
	Names    []string // the requirements as asked for
	Lock     string   // what was installed: pinned, with hashes
	Report   string   // the installer's last lines
	Size     int64    // bytes
	Created  time.Time
	Used     time.Time // last
}

// Installed is what an installer has to say about what it installed. Both texts come from a box: untrusted.
type Installed struct {
	Lock   string // what was installed: pinned, with hashes; "" when the installer cannot tell
	Report string // the installer's last lines, for a person
}

// EnvironmentSet is a set of packages that is to be installed before anybody asks for it.
type EnvironmentSet struct {
	Image    string // "" is that of a run that names none
	Packages []string
	Tenant   string // whose runs are to find it, where each tenant has its own
}

// Collected is what a collection of environments removed.
type Collected struct {
	Environments int
	Bytes        int64
}
