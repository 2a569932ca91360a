package app

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// Bounds of a search for packages.
const (
	maxPackageQuery = 200 // bytes
	maxQueryWords   = 4   // that are looked up one by one
)

// SearchPackages looks a package up by its name, or by that of a module that it has. An index cannot be asked for
// more than names: of several words, each is looked up that is one.
func (s *Service) SearchPackages(ctx context.Context, owner, query string) ([]core.Package, error) {
	if !s.settings.Dependencies {
		return nil, errNoDependencies()
	}
	names, err := packageNames(query)
	if err != nil {
		return nil, err
	}
	ctx, release := s.whileOpen(s.inOneCall(ctx))
	defer release()
	found, err := findPackages(ctx, names, s.ports.Catalog.Look)
	if errors.Is(err, core.ErrUnsupported) {
		found, err = s.findFromBox(ctx, owner, names)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, core.Errorf(core.ErrNotFound, "the package index has no package %q", shortened(query)).
			WithHint("it can be asked for names only: try the package's exact name, or the name that is imported")
	}
	return found, nil
}

// findPackages looks names up, the first of which is what was most likely meant.
func findPackages(ctx context.Context, names []string, look func(context.Context, string) (core.Package, error)) (found []core.Package, err error) {
	for i, name := range names {
		p, err := look(ctx, name)
		switch {
		case err == nil:
			found = append(found, p)
		case !errors.Is(err, core.ErrNotFound):
			return nil, err
		}
		if i == 0 && len(found) > 0 {
			break
		}
	}
	return found, nil
}

// findFromBox asks the index that package managers ask by themselves: from an installer's box, as it is not this
// server that knows where that is.
func (s *Service) findFromBox(ctx context.Context, owner string, names []string) (found []core.Package, err error) {
	job, err := s.settings.plan(core.Request{Tenant: owner, Code: "pass"}, false)
	if err != nil {
		return nil, err
	}
	r := &run{Service: s, job: job, progress: func(core.Progress) {}, clock: newStopwatch(s.ports.Now)}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	image, err := r.ensureImage(ctx)
	if err != nil {
		return nil, err
	}
	spec := core.BoxSpec{
		Image: image.Ref, Digest: image.Digest, Limits: s.settings.InstallSize, Network: s.ports.Installer.Network(),
		Labels: core.Labels{Tenant: owner, Purpose: core.PurposeInstall}, Unenforced: core.UnenforcedWarn,
	}
	err = s.within(ctx, r.place, spec, func(box *box) error {
		found, err = findPackages(ctx, names, func(ctx context.Context, name string) (core.Package, error) {
			p, err := s.ports.Catalog.Look(ctx, name)
			if errors.Is(err, core.ErrUnsupported) {
				p, err = s.ports.Installer.Versions(ctx, box.guest, name)
			}
			return p, err
		})
		return err
	})
	return found, err
}

// packageNames are the names to look up: what the query names as a whole first.
func packageNames(query string) ([]string, error) {
	words := strings.Fields(query)
	if len(words) == 0 || len(query) > maxPackageQuery {
		return nil, core.Errorf(core.ErrInvalid, "query must be the name of a package, of at most %d bytes", maxPackageQuery)
	}
	whole := core.PackageOfModule(words[0])
	if whole == "" || len(words) > 1 {
		whole = strings.Join(words, "-")
	}
	candidates := []string{whole}
	if len(words) > 1 {
		candidates = append(candidates, words[:min(len(words), maxQueryWords)]...)
	}
	var names []string
	for _, candidate := range candidates {
		requirements, err := core.ParseRequirements([]string{candidate})
		if err == nil && len(requirements) == 1 && !slices.Contains(names, requirements[0].Name) {
			names = append(names, requirements[0].Name)
		}
	}
	if len(names) == 0 {
		return nil, core.Errorf(core.ErrInvalid, "%q is no name of a package", shortened(query)).
			WithHint(`such as "pandas", or "cv2" for the package that has the module cv2`)
	}
	return names, nil
}
