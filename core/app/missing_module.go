package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// maxAutoInstalls is how many packages a run gets that it has not named, and thus how often it is run again.
const maxAutoInstalls = 3

// supply installs what the program turned out to lack, and reports whether it is to run again. If it is not, the
// record says what to do about it.
func (r *run) supply(ctx context.Context, exit core.Exit, install func(context.Context) error) bool {
	missing, found := r.missing(exit)
	if !found {
		return false
	}
	r.record.Hint = r.hint(missing)
	if !r.autoInstall || missing.Package == "" || missing.Asked(r.requirements) || len(r.record.AutoInstalled) == maxAutoInstalls {
		return false
	}
	added, err := core.ParseRequirements([]string{missing.Package})
	if err != nil {
		return false // no package of the list is like that
	}
	if err := r.afford(ctx); err != nil {
		r.record.Warnings = append(r.record.Warnings, fmt.Sprintf("it was not run again with %s: %s", missing.Package, core.MessageOf(err)))
		return false
	}
	before := r.requirements
	r.requirements = sorted(slices.Concat(before, added))
	r.runs.again(ctx, r.under)
	if err := install(ctx); err != nil {
		r.requirements, r.record.Hint = before, core.HintOf(err)
		r.record.Warnings = append(r.record.Warnings, fmt.Sprintf("%s could not be installed by itself: %s", missing.Package, core.MessageOf(err)))
		return false
	}
	r.record.Hint = ""
	r.record.AutoInstalled = append(r.record.AutoInstalled, added[0].String())
	return true
}

// sorted keeps the order of requirements that makes no difference.
func sorted(requirements []core.Requirement) []core.Requirement {
	slices.SortFunc(requirements, func(a, b core.Requirement) int { return strings.Compare(a.String(), b.String()) })
	return requirements
}

// missing is the module for want of which the program failed.
func (r *run) missing(exit core.Exit) (core.MissingModule, bool) {
	if core.StatusOf(exit) != core.StatusFailed || r.language != core.LanguagePython && r.language != languageShell {
		return core.MissingModule{}, false
	}
	var own []string
	for _, f := range r.files {
		own = append(own, f.Name)
	}
	for _, f := range exit.Files {
		own = append(own, f.Path)
	}
	return core.FindMissingModule(exit.Stderr, own)
}

// hint says what to do about a missing module here.
func (r *run) hint(missing core.MissingModule) string {
	switch {
	case missing.Package != "" && !r.settings.Dependencies:
		return fmt.Sprintf("the module %q is not installed, and this server installs no packages: use an image that has %s", missing.Name, missing.Package)
	case missing.Package != "" && r.language == languageShell:
		return fmt.Sprintf("the module %q is not installed: install_package_in_sandbox installs %s", missing.Name, missing.Package)
	}
	return missing.Hint(r.requirements)
}
