package core

import (
	"strings"
	"time"
)

// Environment is an installed set of requirements, immutable once it is in the index.
type Environment struct {
	Key      string // of backend, image, installer and requirements
	Backend  string
	Zone     string // the volume that holds it, among others of the same trust
	Folder   string // in that volume
	Language Language
	Names    []string // the requirements as asked for
	Lock     string   // what was installed: pinned, with hashes
	Report   string   // the installer's last lines
	Size     int64    // bytes
	Compiled bool     // its bytecode is there too
	Created  time.Time
	Used     time.Time // last
}

// remainsPrefix begins the keys of remains. Those of environments are hexadecimal.
const remainsPrefix = "remains-"

// Remains is what an index has of an environment's folder while that is being filled, and once nobody is to use it
// any more: there is no other way to know of it.
func (e Environment) Remains(since time.Time) Environment {
	return Environment{
		Key: remainsPrefix + e.Folder, Backend: e.Backend, Zone: e.Zone, Folder: e.Folder, Size: e.Size, Created: since, Used: since,
	}
}

// IsRemains reports whether it is no environment: see Remains.
func (e Environment) IsRemains() bool { return strings.HasPrefix(e.Key, remainsPrefix) }

// Path is where a box of its zone has it.
func (e Environment) Path() string { return GuestEnvironments + "/" + ZoneFolder + "/" + e.Folder }

// Kept is the answer of "boxwright-agent keep": what was copied, or why not.
type Kept struct {
	Bytes   int64   `json:"bytes"`
	Entries int64   `json:"entries"`
	Failure Failure `json:"failure"`
}

// Ready is what an installer found in its box before anything was asked for. It comes from a box: untrusted.
type Ready struct {
	Tool   string   // the package manager to use; "" when none was found that could be used at once
	Looked bool     // Has is known
	Has    []string // packages that the image has, by their normalized names
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
