package core

// Package is what an index says of a package: untrusted, but plain text of bounded length.
type Package struct {
	Name           string
	Summary        string
	Versions       []string // the latest ones, the newest first; preliminary ones only if there are no others
	RequiresPython string   // of the newest; "" is any, or not known
}

// PackageOfModule returns the package that is known to have a module of another name; "" for all others.
func PackageOfModule(module string) string { return knownPackage(module, false) }
