// Package findings is what the suites of the ports share: a check notes what is wrong and goes on, or ends itself
// where it cannot.
//
// It knows no port, and no test: a suite tells a store's author what is broken, and shows with broken stores that it
// would.
package findings

import (
	"errors"
	"fmt"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// Findings are what a check finds wrong. All methods but Of may be called at the same time; the zero value is ready.
type Findings struct {
	mu     sync.Mutex
	faults []string
}

// stop ends a check that cannot go on.
type stop struct{}

// Of runs a check to its end and returns what it found.
func (f *Findings) Of(check func()) []string {
	func() {
		defer func() {
			if caught := recover(); caught != nil && caught != (stop{}) {
				panic(caught)
			}
		}()
		check()
	}()
	return f.faults
}

// Faultf notes what is wrong.
func (f *Findings) Faultf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// Must ends the check, in its own goroutine, if something that it builds on fails.
func (f *Findings) Must(what string, err error) {
	if err != nil {
		f.Faultf("%s: %v", what, err)
		panic(stop{})
	}
}

// WantKind notes an error of another kind, and none.
func (f *Findings) WantKind(what string, err error, kind core.Kind) {
	if !errors.Is(err, kind) {
		f.Faultf("%s: got error %v, want %s", what, err, kind)
	}
}
