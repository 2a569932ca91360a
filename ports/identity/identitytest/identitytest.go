// Package identitytest checks the promises of identity.Store, one check for each sentence.
//
// It is for the tests of stores: each says how it is opened and hands that to Run.
package identitytest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/internal/findings"
)

// Harness opens the store to check.
type Harness struct {
	// Open opens what the folder keeps, which is empty at first. The store ends with the test.
	Open func(t *testing.T, dir string) identity.Store
	// Lasts: all who have the folder open share what is put.
	Lasts bool
}

// Check is one sentence of the port, and the test of it.
type Check struct {
	Name   string // short; the name of the subtest
	Clause string // the sentence
	test   func(*checking)
	lasts  bool // it is about stores that last
}

// Run checks the store of h.
func Run(t *testing.T, h Harness) {
	for _, check := range Checks() {
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

// Checks lists every check.
func Checks() []Check {
	return slices.Concat(userChecks(), keyChecks(), setupChecks(), recordChecks(), usageChecks())
}

// Faults returns what the check finds wrong. Of t it uses what a store needs to be opened.
func (c Check) Faults(t *testing.T, h Harness) []string {
	t.Helper()
	dir := t.TempDir()
	open := func() identity.Store { return h.Open(t, dir) }
	k := &checking{Store: open(), ctx: t.Context(), open: open}
	return k.Of(func() { c.test(k) })
}

// checking is one check at work.
type checking struct {
	findings.Findings
	identity.Store
	ctx  context.Context //nolint:containedctx // it lives as long as one check
	open func() identity.Store
}

func (c *checking) want(what string, got, want any) {
	if !reflect.DeepEqual(inUTC(got), inUTC(want)) {
		c.Faultf("%s is %+v, not %+v", what, got, want)
	}
}

// inUTC makes equal times the same.
func inUTC(v any) any {
	switch v := v.(type) {
	case core.User:
		v.Created = v.Created.UTC()
		return v
	case core.Key:
		for _, at := range []*time.Time{&v.Created, &v.Expires, &v.Used, &v.Revoked} {
			*at = at.UTC()
		}
		return v
	case core.AuditRecord:
		v.At = v.At.UTC()
		return v
	case core.Holding:
		v.Since = v.Since.UTC()
		return v
	}
	return v
}

// atOnce calls f n times at the same time and tells how many succeeded.
func atOnce(n int, f func(i int) error) (succeeded int) {
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
	return len(slices.DeleteFunc(results, func(err error) bool { return err != nil }))
}

// names lists what has one, with spaces between.
func names[T any](list []T, name func(T) string) string {
	all := make([]string, len(list))
	for i, item := range list {
		all[i] = name(item)
	}
	return strings.Join(all, " ")
}

func at(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 4, 567_891_234, time.UTC) }

func user(name string) core.User {
	return core.User{ID: "u-" + name, Name: name, Role: core.RoleUser, Created: at(1)}
}

func key(id, owner string) core.Key {
	k := core.Key{ID: id, Owner: "u-" + owner, Created: at(2)}
	copy(k.Hash[:], "hash of "+id)
	return k
}

// annAndBob are two users.
func (c *checking) annAndBob() {
	c.Must("AddUser", c.AddUser(c.ctx, user("ann")))
	c.Must("AddUser", c.AddUser(c.ctx, user("bob")))
}

func (c *checking) addKey(k core.Key) { c.Must("AddKey "+k.ID, c.AddKey(c.ctx, k)) }

func (c *checking) wantKey(want core.Key) {
	got, _, err := c.Key(c.ctx, want.ID)
	c.Must("Key "+want.ID, err)
	c.want("key "+want.ID, got, want)
}
