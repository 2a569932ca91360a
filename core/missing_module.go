package core

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// MissingModule is a module that a Python program imported and that was not there.
type MissingModule struct {
	Name    string // as it was imported, as far as that can be told: "google.protobuf"
	Package string // the distribution to ask for; "" when nothing sensible is known
}

// Bounds of what is looked at: the text is a program's own.
const (
	maxTraceback  = 8 << 10 // bytes, from the end
	longestModule = 100     // bytes
)

// tracebackPatterns find what Python and some packages say of a missing module. Each has one group, its name.
func tracebackPatterns() []string {
	const name = `([A-Za-z_][A-Za-z0-9_.]*)`
	return []string{
		`^(?:[A-Za-z0-9_.]*\.)?ModuleNotFoundError: No module named '` + name + `'`,
		`^ImportError: Missing optional dependency '` + name + `'`,
		`^[^ ]+: No module named ` + name + `$`, // python -m NAME
	}
}

// FindMissingModule looks for a missing module at the end of what a failed program wrote to stderr, and for the
// package that has it. own are the paths of files that belong to the program: a module that is one of them is
// in no package.
func FindMissingModule(stderr Output, own []string) (MissingModule, bool) {
	lines := lastLinesOf(stderr)
	for at, line := range slices.Backward(lines) {
		if strings.HasSuffix(line, "is not a package") {
			continue // a file of that name hides it
		}
		for _, pattern := range tracebackPatterns() {
			m := regexp.MustCompile(pattern).FindStringSubmatch(line)
			if m == nil || len(m[1]) > longestModule {
				continue
			}
			name := importedName(m[1], lines[:at])
			return MissingModule{Name: name, Package: packageOf(name, strings.Contains(m[1], "."), own)}, true
		}
	}
	return MissingModule{}, false
}

// Asked reports whether its package is among those that were asked for.
func (m MissingModule) Asked(requirements []Requirement) bool {
	name := NormalizePackage(m.Package[:strings.IndexAny(m.Package+"<", "[<>=")])
	return slices.ContainsFunc(requirements, func(r Requirement) bool { return r.Name == name })
}

// Hint says what to do about it, given what was asked for.
func (m MissingModule) Hint(requirements []Requirement) string {
	switch {
	case m.Package == "":
		return fmt.Sprintf("there is no module %q, and no package is known to have it: send a file of your own with the code, or look for a package's name with search_pypi_packages", m.Name)
	case m.Asked(requirements):
		return fmt.Sprintf("the package %s is installed but has no module %q: another version of it may", m.Package, m.Name)
	}
	list := []string{fmt.Sprintf("%q", m.Package)}
	for _, r := range requirements {
		list = append(list, fmt.Sprintf("%q", r.String()))
	}
	return fmt.Sprintf("the module %q is not installed: run the code again with dependencies: [%s]", m.Name, strings.Join(list, ", "))
}

// lastLinesOf are those of a traceback, if one ended the program.
func lastLinesOf(stderr Output) []string {
	end := stderr.Tail
	if len(end) == 0 {
		end = stderr.Head
	}
	lines := strings.Split(PlainText(string(end[max(0, len(end)-maxTraceback):])), "\n")
	for i, line := range lines {
		lines[i] = strings.Trim(line, " |\t\r") // a group of exceptions draws lines
	}
	return lines
}

// importedName is the whole name in the import that failed: Python names only the first part that is not there,
// which for "google.protobuf" may be "google".
func importedName(name string, before []string) string {
	quoted := regexp.QuoteMeta(name)
	statement := regexp.MustCompile(`^(?:from (` + quoted + `(?:\.\w+)*) import (\w+)|import (` + quoted + `(?:\.\w+)*))(?:\W|$)`)
	for _, line := range slices.Backward(before) {
		m := statement.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		whole := m[3]
		if whole == "" {
			whole = m[1] + "." + m[2]
		}
		if len(whole) <= longestModule && isNamespace(name) {
			return whole
		}
		break
	}
	return name
}

// packageOf returns the package that has a module, "" if none is known to. inPackage says that Python found what
// the module should be in: then only a package that adds to it can help.
func packageOf(module string, inPackage bool, own []string) string {
	top, _, _ := strings.Cut(module, ".")
	if slices.ContainsFunc(own, func(file string) bool { return isModuleFile(file, top) }) {
		return ""
	}
	if known := knownPackage(module, inPackage); known != "" {
		return known
	}
	if inPackage || strings.HasPrefix(top, "_") || isNamespace(top) || isListed(elsewhereModules, top) || isListed(ownModules, top) {
		return ""
	}
	return NormalizePackage(top)
}

// isModuleFile reports whether a file is the module, or lies in it, wherever that is.
func isModuleFile(file, module string) bool {
	folder, base := path.Split(file)
	return base == module+".py" || slices.Contains(strings.Split(folder, "/"), module)
}

// knownPackage looks a module up, then what it is in. Of a namespace that many packages share, each package is
// named like its part.
func knownPackage(module string, inPackage bool) string {
	known := listedPackages()
	parts := strings.Split(module, ".")
	least := 1
	if inPackage {
		least = 2
	}
	for n := len(parts); n >= least; n-- {
		if found := known[strings.Join(parts[:n], ".")]; found != "" {
			return found
		}
	}
	for n := len(parts) - 1; n > 0; n-- {
		if space := strings.Join(parts[:n], "."); space != "google" && isNamespace(space) {
			return NormalizePackage(strings.Join(parts[:n+1], "-"))
		}
	}
	return ""
}

func isListed(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

func isNamespace(module string) bool { return isListed(namespaceModules, module) }
