// Package dependencytest checks the promises of dependency.Index, one check for each sentence.
//
// It is for the tests of indexes: each makes one and hands it to Run. Installers need a box, so
// their promises are checked where one is.
package dependencytest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

// Check is one sentence of the port, and the test of it.
type Check struct {
	Name   string // short; the name of the subtest
	Clause string // the sentence
	test   func(*checking)
}

// Checks lists every check.
func Checks() []Check {
	return []Check{
		{"get", "Get returns the environment put last under key.", testGet},
		{"get unknown", "Get of what is not there is core.ErrNotFound.", testGetUnknown},
		{"put again", "Put stores an environment under its key, in place of any other.", testPutAgain},
		{"own copy", "An environment is whole: changing what was put or got changes nothing in the index.", testOwnCopy},
		{"keys", "A key that cannot be one is core.ErrInvalid and stores nothing.", testKeys},
		{"delete", "Delete forgets the environment. An unknown key is no error.", testDelete},
		{"list", "List returns all environments, by key.", testList},
		{"concurrent", "All methods may be called at the same time.", testConcurrent},
	}
}

// Run checks the indexes that made returns, each empty.
func Run(t *testing.T, made func(t *testing.T) dependency.Index) {
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) {
			for _, fault := range check.Faults(t, made(t)) {
				t.Errorf("%s\n\tbroken: %s", check.Clause, fault)
			}
		})
	}
}

// Faults returns what the check finds wrong with an empty index.
func (c Check) Faults(t *testing.T, index dependency.Index) []string {
	t.Helper()
	checking := &checking{ctx: t.Context(), index: index}
	func() {
		defer func() {
			if caught := recover(); caught != nil && caught != (stop{}) {
				panic(caught)
			}
		}()
		c.test(checking)
	}()
	return checking.faults
}

// stop ends a check that cannot go on.
type stop struct{}

// checking is one check at work.
type checking struct {
	ctx    context.Context
	index  dependency.Index
	mu     sync.Mutex
	faults []string
}

func (c *checking) faultf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// must ends the check if something that it builds on fails.
func (c *checking) must(what string, err error) {
	if err != nil {
		c.faultf("%s: %v", what, err)
		panic(stop{})
	}
}

func sample(key string) core.Environment {
	return core.Environment{
		Key: key, Backend: "docker", Volume: "boxwright-env-" + key, Names: []string{"numpy>=2", `tomli ; python_version < "3.11"`},
		Report: "Installed 2 packages\n+ ü", Created: time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC),
	}
}

func (c *checking) put(e core.Environment) { c.must("Put "+e.Key, c.index.Put(c.ctx, e)) }

func (c *checking) wantGet(want core.Environment) {
	got, err := c.index.Get(c.ctx, want.Key)
	c.must("Get "+want.Key, err)
	if !same(got, want) {
		c.faultf("Get returned %+v, not %+v", got, want)
	}
}

func same(a, b core.Environment) bool {
	sameTime := a.Created.Equal(b.Created)
	a.Created, b.Created = time.Time{}, time.Time{}
	return sameTime && reflect.DeepEqual(a, b)
}

func (c *checking) keys() string {
	list, err := c.index.List(c.ctx)
	c.must("List", err)
	var keys []string
	for _, e := range list {
		keys = append(keys, e.Key)
	}
	return strings.Join(keys, " ")
}

func testGet(c *checking) {
	c.put(sample("one"))
	c.put(sample("two"))
	c.wantGet(sample("one"))
	c.wantGet(sample("two"))
}

func testGetUnknown(c *checking) {
	c.put(sample("one"))
	for _, key := range []string{"two", "on", "one.json", "", "../one"} {
		if _, err := c.index.Get(c.ctx, key); !errors.Is(err, core.ErrNotFound) {
			c.faultf("Get %q: got error %v, want %s", key, err, core.ErrNotFound)
		}
	}
}

func testPutAgain(c *checking) {
	c.put(sample("one"))
	changed := sample("one")
	changed.Volume, changed.Names = "another", nil
	c.put(changed)
	c.wantGet(changed)
	if got := c.keys(); got != "one" {
		c.faultf("List has %s", got)
	}
}

func testOwnCopy(c *checking) {
	e := sample("one")
	c.put(e)
	e.Names[0] = "changed"
	c.wantGet(sample("one"))
	got, err := c.index.Get(c.ctx, "one")
	c.must("Get", err)
	got.Names[0] = "changed"
	c.wantGet(sample("one"))
	list, err := c.index.List(c.ctx)
	c.must("List", err)
	list[0].Names[0] = "changed"
	c.wantGet(sample("one"))
}

func testKeys(c *checking) {
	for _, key := range []string{"", ".", "..", "../one", "a/b", "a b", "ü", "a\x00", strings.Repeat("k", 129)} {
		if err := c.index.Put(c.ctx, sample(key)); !errors.Is(err, core.ErrInvalid) {
			c.faultf("Put %q: got error %v, want %s", key, err, core.ErrInvalid)
		}
	}
	if got := c.keys(); got != "" {
		c.faultf("List has %s", got)
	}
	c.put(sample(strings.Repeat("k", 128)))
	c.put(sample("Az09_-"))
}

func testDelete(c *checking) {
	c.put(sample("one"))
	c.put(sample("two"))
	c.must("Delete", c.index.Delete(c.ctx, "one"))
	if _, err := c.index.Get(c.ctx, "one"); !errors.Is(err, core.ErrNotFound) {
		c.faultf("Get after Delete: got error %v, want %s", err, core.ErrNotFound)
	}
	if got := c.keys(); got != "two" {
		c.faultf("List has %s", got)
	}
	c.must("Delete again", c.index.Delete(c.ctx, "one"))
	c.must("Delete of an unknown key", c.index.Delete(c.ctx, "unknown"))
}

func testList(c *checking) {
	if got := c.keys(); got != "" {
		c.faultf("an empty index lists %s", got)
	}
	for _, key := range []string{"b", "c", "a"} {
		c.put(sample(key))
	}
	list, err := c.index.List(c.ctx)
	c.must("List", err)
	if got := c.keys(); got != "a b c" || !same(list[1], sample("b")) {
		c.faultf("List has %s: %+v", got, list)
	}
}

func testConcurrent(c *checking) {
	const callers, each = 8, 20
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			defer func() { _ = recover() }() // a fault is noted already
			for i := range each {
				shared := sample("shared")
				shared.Volume = fmt.Sprintf("%d-%d", n, i)
				c.put(shared)
				own := sample(fmt.Sprintf("own-%d-%d", n, i))
				c.put(own)
				c.wantGet(own)
				got, err := c.index.Get(c.ctx, "shared")
				c.must("Get of a key that others put", err)
				got.Volume = sample("shared").Volume
				if !same(got, sample("shared")) {
					c.faultf("a mixture was returned: %+v", got)
				}
				_ = c.keys()
				c.must("Delete", c.index.Delete(c.ctx, own.Key))
			}
		})
	}
	group.Wait()
	if got := c.keys(); got != "shared" {
		c.faultf("List has %s", got)
	}
}
