// Package sessiontest checks the promises of session.Store and session.Runs, one check for each sentence.
//
// It is for the tests of stores: each says how it is opened and hands that to RunStore and RunRuns.
package sessiontest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boxwright/boxwright/ports/internal/findings"
	"github.com/boxwright/boxwright/ports/session"
)

// Harness opens the stores to check.
type Harness struct {
	// Open opens what the folder keeps, which is empty at first.
	Open func(t *testing.T, dir string) Opened
	// Lasts: what was put is there when the folder is opened again, and all who have it open share it.
	Lasts bool
}

// Opened is a pair of stores, of which a check uses one.
type Opened struct {
	Sessions session.Store
	Runs     session.Runs
	Close    func() error
}

// Check is one sentence of the port, and the test of it.
type Check struct {
	Name   string // short; the name of the subtest
	Clause string // the sentence
	test   func(*checking)
	lasts  bool // it is about stores that last
}

// RunStore checks the session.Store of h.
func RunStore(t *testing.T, h Harness) { run(t, h, StoreChecks()) }

// RunRuns checks the session.Runs of h.
func RunRuns(t *testing.T, h Harness) { run(t, h, RunsChecks()) }

func run(t *testing.T, h Harness, checks []Check) {
	for _, check := range checks {
		if check.lasts && !h.Lasts {
			continue
		}
		t.Run(check.Name, func(t *testing.T) {
			for _, fault := range check.Faults(t, h) {
				t.Errorf("%s\n\tbroken: %s", check.Clause, fault)
			}
		})
	}
}

// Faults returns what the check finds wrong. Of t it uses what a store needs to be opened.
func (c Check) Faults(t *testing.T, h Harness) []string {
	t.Helper()
	dir := t.TempDir()
	k := &checking{Findings: &findings.Findings{}, ctx: t.Context(), open: func() Opened { return h.Open(t, dir) }}
	k.reopen()
	defer func() { _ = k.Close() }()
	return k.Of(func() { c.test(k) })
}

// checking is one check at work.
type checking struct {
	Opened
	*findings.Findings // by whatever handle
	ctx                context.Context
	open               func() Opened
}

// reopen is what a new process does after the old one has ended.
func (c *checking) reopen() {
	if c.Close != nil {
		c.Must("Close", c.Close())
	}
	c.Opened = c.open()
}

// other is the check as another process would make it, on the same folder.
func (c *checking) other() *checking {
	return &checking{Findings: c.Findings, ctx: c.ctx, Opened: c.open()}
}

func (c *checking) wantText(what, got, want string) {
	if got != want {
		c.Faultf("%s is %q, not %q", what, got, want)
	}
}

func (c *checking) wantSame(what string, got, want any) bool {
	path, differs := difference(reflect.ValueOf(got), reflect.ValueOf(want))
	if differs {
		c.Faultf("%s returned something else at %q", what, path)
	}
	return !differs
}

// atOnce calls f n times at the same time and returns the errors that are not nil.
func atOnce(n int, f func(i int) error) (failed []error) {
	results := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			results[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}

// ids lists what has one, with spaces between.
func ids[T any](list []T, id func(T) string) string {
	names := make([]string, len(list))
	for i, item := range list {
		names[i] = id(item)
	}
	return strings.Join(names, " ")
}
