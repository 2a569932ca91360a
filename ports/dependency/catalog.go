package dependency

import (
	"context"

	"github.com/boxwright/boxwright/core"
)

// Catalog tells what package indexes say of their packages.
type Catalog interface {
	// Look returns what the first index that has a package of that name says of it. The name is one that
	// core.NormalizePackage returns. A package that no index has is core.ErrNotFound; an index that cannot be
	// asked is core.ErrUnavailable, whose text holds neither its address nor a credential. If only package managers
	// know where else to ask, it is core.ErrUnsupported.
	Look(ctx context.Context, name string) (core.Package, error)
}
