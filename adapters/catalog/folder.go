package catalog

import (
	"os"

	"github.com/boxwright/boxwright/core"
)

// inFolder looks a package up in a folder of wheels.
func inFolder(folder, name string) (core.Package, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return core.Package{}, core.Errorf(core.ErrUnavailable, "the folder of wheels cannot be read").
			WithHint("the operator checks dependencies.wheels")
	}
	var versions []string
	for _, entry := range entries {
		if version := versionOf(entry.Name(), name); version != "" {
			versions = append(versions, version)
		}
	}
	if len(versions) == 0 {
		return core.Package{}, core.Errorf(core.ErrNotFound, "the folder of wheels has no package %q", name)
	}
	return packageOf(name, "", once(versions), nil), nil
}
