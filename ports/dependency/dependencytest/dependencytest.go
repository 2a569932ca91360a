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
	"github.com/boxwright/boxwright/ports/internal/findings"
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
		{"times", "An index keeps times to the nanosecond.", testTimes},
		{"get unknown", "Get of what is not there is core.ErrNotFound.", testGetUnknown},
		{"put again", "Put stores an environment under its key, in place of any other.", testPutAgain},
		{"own copy", "An environment is whole: changing what was put or got changes nothing in the index.", testOwnCopy},
		{"keys", "A key that cannot be one is core.ErrInvalid and changes nothing.", testKeys},
		{"bounds", "A lock or a report that is too long is core.ErrInvalid and changes nothing.", testBounds},
		{"touch", "Touch notes when the environment was used. Nothing else changes.", testTouch},
		{"touch earlier", "Touch changes nothing if the environment was used later already.", testTouchEarlier},
		{"touch unknown", "Touch of an unknown key is core.ErrNotFound.", testTouchUnknown},
		{"delete", "Delete forgets the environment. An unknown key is no error.", testDelete},
		{"list", "List returns all environments, by key.", testList},
		{"list brief", "List leaves locks and reports out.", testListBrief},
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
	return checking.Of(func() { c.test(checking) })
}

// checking is one check at work.
type checking struct {
	findings.Findings
	ctx   context.Context
	index dependency.Index
}

// sample fills every field, with what is hard to keep.
func sample(key string) core.Environment {
	return core.Environment{
		Key: key, Backend: "docker", Zone: "boxwright-envs-" + key, Folder: "abcdefghijklmnopqrstuvwxyz", Language: core.LanguagePython,
		Names: []string{"numpy>=2", `tomli ; python_version < "3.11"`}, Lock: "numpy==2.0 \\\n    --hash=sha256:00\n",
		Report: "Installed 2 packages\n+ ü \xff\x00", Size: 1 << 40, Compiled: true, Created: at(1), Used: at(2),
	}
}

func at(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 678_900_000, time.UTC) }

func (c *checking) put(e core.Environment) { c.Must("Put "+e.Key, c.index.Put(c.ctx, e)) }

func (c *checking) wantGet(want core.Environment) {
	got, err := c.index.Get(c.ctx, want.Key)
	c.Must("Get "+want.Key, err)
	if !same(got, want) {
		c.Faultf("Get returned %+v, not %+v", got, want)
	}
}

func same(a, b core.Environment) bool {
	sameTimes := a.Created.Equal(b.Created) && a.Used.Equal(b.Used)
	a.Created, b.Created = time.Time{}, time.Time{}
	a.Used, b.Used = time.Time{}, time.Time{}
	return sameTimes && reflect.DeepEqual(a, b)
}

func (c *checking) keys() string {
	list, err := c.index.List(c.ctx)
	c.Must("List", err)
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

func testTimes(c *checking) {
	e := sample("one")
	e.Created, e.Used = e.Created.Add(1), time.Time{}
	c.put(e)
	c.wantGet(e)
	e.Used = at(9).Add(1)
	c.Must("Touch", c.index.Touch(c.ctx, e.Key, e.Used.In(time.FixedZone("far", 3600))))
	c.wantGet(e)
}

func testGetUnknown(c *checking) {
	c.put(sample("one"))
	for _, key := range []string{"two", "on", "one.json", "", "../one"} {
		if _, err := c.index.Get(c.ctx, key); !errors.Is(err, core.ErrNotFound) {
			c.Faultf("Get %q: got error %v, want %s", key, err, core.ErrNotFound)
		}
	}
}

func testPutAgain(c *checking) {
	c.put(sample("one"))
	changed := sample("one")
	changed.Folder, changed.Names, changed.Lock, changed.Report, changed.Used = "another", nil, "", "", at(0)
	c.put(changed)
	c.wantGet(changed)
	if got := c.keys(); got != "one" {
		c.Faultf("List has %s", got)
	}
}

func testOwnCopy(c *checking) {
	e := sample("one")
	c.put(e)
	e.Names[0] = "changed"
	c.wantGet(sample("one"))
	got, err := c.index.Get(c.ctx, "one")
	c.Must("Get", err)
	got.Names[0] = "changed"
	c.wantGet(sample("one"))
	list, err := c.index.List(c.ctx)
	c.Must("List", err)
	list[0].Names[0] = "changed"
	c.wantGet(sample("one"))
}

func testKeys(c *checking) {
	for _, key := range []string{"", ".", "..", "../one", "a/b", "a b", "ü", "a\x00", strings.Repeat("k", 129)} {
		if err := c.index.Put(c.ctx, sample(key)); !errors.Is(err, core.ErrInvalid) {
			c.Faultf("Put %q: got error %v, want %s", key, err, core.ErrInvalid)
		}
	}
	if got := c.keys(); got != "" {
		c.Faultf("List has %s", got)
	}
	c.put(sample(strings.Repeat("k", 128)))
	c.put(sample("Az09_-"))
}

func testBounds(c *checking) {
	c.put(sample("one"))
	for _, change := range []func(*core.Environment, string){
		func(e *core.Environment, text string) { e.Lock = text },
		func(e *core.Environment, text string) { e.Report = text },
	} {
		e := sample("one")
		change(&e, strings.Repeat("x", dependency.MaxText+1))
		if err := c.index.Put(c.ctx, e); !errors.Is(err, core.ErrInvalid) {
			c.Faultf("Put of %d bytes: got error %v, want %s", dependency.MaxText+1, err, core.ErrInvalid)
		}
		c.wantGet(sample("one"))
	}
	e := sample("two")
	e.Lock = strings.Repeat("x", dependency.MaxText)
	c.put(e)
	c.wantGet(e)
}

func testTouch(c *checking) {
	c.put(sample("one"))
	c.put(sample("two"))
	c.Must("Touch", c.index.Touch(c.ctx, "one", at(5)))
	want := sample("one")
	want.Used = at(5)
	c.wantGet(want)
	c.wantGet(sample("two"))
}

func testTouchEarlier(c *checking) {
	c.put(sample("one"))
	for _, used := range []time.Time{at(1), at(2), {}} {
		c.Must("Touch", c.index.Touch(c.ctx, "one", used))
		c.wantGet(sample("one"))
	}
}

func testTouchUnknown(c *checking) {
	c.put(sample("one"))
	for _, key := range []string{"two", "", "../one"} {
		if err := c.index.Touch(c.ctx, key, at(5)); !errors.Is(err, core.ErrNotFound) {
			c.Faultf("Touch %q: got error %v, want %s", key, err, core.ErrNotFound)
		}
	}
	if got := c.keys(); got != "one" {
		c.Faultf("List has %s", got)
	}
}

func testDelete(c *checking) {
	c.put(sample("one"))
	c.put(sample("two"))
	c.Must("Delete", c.index.Delete(c.ctx, "one"))
	if _, err := c.index.Get(c.ctx, "one"); !errors.Is(err, core.ErrNotFound) {
		c.Faultf("Get after Delete: got error %v, want %s", err, core.ErrNotFound)
	}
	if got := c.keys(); got != "two" {
		c.Faultf("List has %s", got)
	}
	c.Must("Delete again", c.index.Delete(c.ctx, "one"))
	c.Must("Delete of an unknown key", c.index.Delete(c.ctx, "unknown"))
}

func testList(c *checking) {
	if got := c.keys(); got != "" {
		c.Faultf("an empty index lists %s", got)
	}
	for _, key := range []string{"b", "c", "a"} {
		c.put(sample(key))
	}
	if got := c.keys(); got != "a b c" {
		c.Faultf("List has %s", got)
	}
}

func testListBrief(c *checking) {
	c.put(sample("one"))
	list, err := c.index.List(c.ctx)
	c.Must("List", err)
	if len(list) != 1 || !same(list[0], dependency.Brief(sample("one"))) {
		c.Faultf("List returned %+v", list)
	}
}

func testConcurrent(c *checking) {
	const callers, each = 8, 20
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			defer func() { _ = recover() }() // a fault is noted already
			for i := range each {
				c.share(fmt.Sprintf("%d-%d", n, i))
			}
		})
	}
	group.Wait()
	if got := c.keys(); got != "shared" {
		c.Faultf("List has %s", got)
	}
}

// share puts an environment that others put too, and one of its own.
func (c *checking) share(name string) {
	shared := sample("shared")
	shared.Folder, shared.Lock = name, name
	c.put(shared)
	own := sample("own-" + name)
	c.put(own)
	c.Must("Touch", c.index.Touch(c.ctx, own.Key, at(5)))
	own.Used = at(5)
	c.wantGet(own)
	got, err := c.index.Get(c.ctx, "shared")
	c.Must("Get of a key that others put", err)
	if got.Folder != got.Lock {
		c.Faultf("a mixture was returned: %+v", got)
	}
	_ = c.keys()
	c.Must("Delete", c.index.Delete(c.ctx, own.Key))
}
