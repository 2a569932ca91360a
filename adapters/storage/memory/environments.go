package memory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

// Environments is a dependency.Index. Its zero value is empty and ready.
type Environments struct {
	mu  sync.Mutex
	all map[string]core.Environment
}

// NewEnvironments returns an empty index.
func NewEnvironments() *Environments { return &Environments{} }

// Get implements dependency.Index.
func (x *Environments) Get(_ context.Context, key string) (core.Environment, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, has := x.all[key]
	if !has {
		return core.Environment{}, dependency.Unknown(key)
	}
	return clone(e), nil
}

// Put implements dependency.Index.
func (x *Environments) Put(_ context.Context, e core.Environment) error {
	if err := dependency.CheckEnvironment(e); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = map[string]core.Environment{}
	}
	x.all[e.Key] = clone(e)
	return nil
}

// Touch implements dependency.Index.
func (x *Environments) Touch(_ context.Context, key string, at time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, has := x.all[key]
	if !has {
		return dependency.Unknown(key)
	}
	if at.After(e.Used) {
		e.Used = at
		x.all[key] = e
	}
	return nil
}

// Delete implements dependency.Index.
func (x *Environments) Delete(_ context.Context, key string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, key)
	return nil
}

// List implements dependency.Index.
func (x *Environments) List(context.Context) ([]core.Environment, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]core.Environment, 0, len(x.all))
	for _, e := range x.all {
		list = append(list, clone(dependency.Brief(e)))
	}
	slices.SortFunc(list, func(a, b core.Environment) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

func clone(e core.Environment) core.Environment {
	e.Names = slices.Clone(e.Names)
	return e
}
