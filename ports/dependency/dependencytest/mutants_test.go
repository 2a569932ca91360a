package dependencytest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

// fake keeps environments in a map. broken names the one promise that it breaks; "" is none.
type fake struct {
	broken string
	mu     sync.Mutex
	all    map[string]core.Environment
}

func newFake(broken string) *fake { return &fake{broken: broken, all: map[string]core.Environment{}} }

func (f *fake) copied(e core.Environment) core.Environment {
	if f.broken != "own copy" {
		e.Names = slices.Clone(e.Names)
	}
	if f.broken == "get" {
		e.Size = 0
	}
	if f.broken == "times" {
		e.Used = e.Used.Truncate(time.Microsecond)
	}
	return e
}

func (f *fake) Get(_ context.Context, key string) (core.Environment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, has := f.all[key]
	if !has && f.broken != "get unknown" {
		return core.Environment{}, dependency.Unknown(key)
	}
	return f.copied(e), nil
}

func (f *fake) Put(_ context.Context, e core.Environment) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	check := e
	switch f.broken {
	case "keys":
		check.Key = "fine"
	case "bounds":
		check = dependency.Brief(check)
	}
	if err := dependency.CheckEnvironment(check); err != nil {
		return err
	}
	if _, has := f.all[e.Key]; has && f.broken == "put again" {
		return nil
	}
	f.all[e.Key] = f.copied(e)
	return nil
}

func (f *fake) Touch(_ context.Context, key string, at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, has := f.all[key]
	if !has && f.broken != "touch unknown" {
		return dependency.Unknown(key)
	}
	if has && (at.After(e.Used) || f.broken == "touch earlier") {
		e.Used = at
		if f.broken == "touch" {
			e.Created = at
		}
		f.all[key] = e
	}
	return nil
}

func (f *fake) Delete(_ context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, has := f.all[key]; !has && f.broken == "delete" {
		return dependency.Unknown(key)
	}
	delete(f.all, key)
	return nil
}

func (f *fake) List(context.Context) ([]core.Environment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.Environment
	for _, e := range f.all {
		if f.broken != "list brief" {
			e = dependency.Brief(e)
		}
		list = append(list, f.copied(e))
	}
	slices.SortFunc(list, func(a, b core.Environment) int { return strings.Compare(a.Key, b.Key) })
	if f.broken == "list" {
		slices.Reverse(list)
	}
	return list, nil
}

func TestFakeKeepsEveryPromise(t *testing.T) {
	Run(t, func(*testing.T) dependency.Index { return newFake("") })
}

// TestTeeth breaks one promise at a time: its check must notice.
func TestTeeth(t *testing.T) {
	also := map[string][]string{ // checks that rest on the promise of another
		"get":         {"times", "put again", "own copy", "bounds", "touch", "touch earlier", "list brief", "concurrent"},
		"get unknown": {"delete"},
		"touch":       {"times", "concurrent"},
	}
	for _, broken := range Checks() {
		if broken.Name == "concurrent" {
			continue // the race detector is its teeth
		}
		t.Run(broken.Name, func(t *testing.T) {
			for _, check := range Checks() {
				faults := check.Faults(t, newFake(broken.Name))
				switch {
				case check.Name == broken.Name && len(faults) == 0:
					t.Errorf("the check noticed nothing")
				case check.Name != broken.Name && len(faults) > 0 && !slices.Contains(also[broken.Name], check.Name):
					t.Errorf("the check %q failed too: %s", check.Name, faults[0])
				}
			}
		})
	}
}
