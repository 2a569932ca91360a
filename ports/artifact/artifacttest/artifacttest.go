// Package artifacttest checks the promises of artifact.Store, one check for each sentence.
//
// It is for the tests of stores: each makes one and hands it to Run.
package artifacttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// Harness makes the stores to check.
type Harness struct {
	// New returns an empty store.
	New func(t *testing.T) artifact.Store
	// Small returns an empty store with room for 100 bytes. nil: the store has no bound of its own.
	Small func(t *testing.T) artifact.Store
}

// Check is one sentence of the port, and the test of it.
type Check struct {
	Name   string // short; the name of the subtest
	Clause string // the sentence
	test   func(*checking)
}

// Checks lists every check.
func Checks() []Check {
	return []Check{
		{"commit", "Create begins a file. It can be read only after Commit.", testCommit},
		{"record", "Commit tells name, size, type, checksum and address of what was written.", testRecord},
		{"twice", "A run and name that exist already are core.ErrInvalid.", testTwice},
		{"abort", "Abort leaves nothing; Abort after Commit or Abort does nothing.", testAbort},
		{"names", "A name that is absolute, empty, has an empty, . or .. element, a NUL, or is not UTF-8, is core.ErrInvalid and stores nothing.", testNames},
		{"strange names", "Names with spaces, quotes, non-ASCII and control characters are kept as they are.", testStrangeNames},
		{"runs", "The id of a run that cannot be one is core.ErrInvalid.", testRuns},
		{"open", "Open returns the file, from its first byte, with what is known of it.", testOpen},
		{"open unknown", "Open of what is not there is core.ErrNotFound.", testOpenUnknown},
		{"mime", `mimeType "" is found from name and content.`, testMIME},
		{"list", "List returns the files of a run by name; none for an unknown run.", testList},
		{"remove", "Remove removes a run's files. An unknown run is no error.", testRemove},
		{"sweep by age", "Sweep removes the runs whose newest file is older than before.", testSweepAge},
		{"sweep by size", "Sweep removes the oldest runs until at most maxBytes are kept (0: no bound), and tells how many.", testSweepSize},
		{"sweep open", "A file that is being written survives a sweep.", testSweepOpen},
		{"concurrent", "All methods may be called at the same time.", testConcurrent},
		{"full", "No room left is core.ErrExhausted, and Abort gives the room back.", testFull},
		{"room", "A store with a bound removes the oldest runs when there is no room left, but never the run that is written.", testRoom},
	}
}

// bounded reports whether the check is about a store's own bound.
func (c Check) bounded() bool { return c.Name == "full" || c.Name == "room" }

// Run checks the stores that h makes.
func Run(t *testing.T, h Harness) {
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) {
			if check.bounded() && h.Small == nil {
				t.Skip("the store has no bound of its own")
			}
			for _, fault := range check.Faults(t, h) {
				t.Errorf("%s\n\tbroken: %s", check.Clause, fault)
			}
		})
	}
}

// Faults returns what the check finds wrong. Of t it uses what a store needs to be made.
func (c Check) Faults(t *testing.T, h Harness) []string {
	t.Helper()
	made := h.New
	if c.bounded() {
		made = h.Small
	}
	checking := &checking{ctx: t.Context(), store: made(t)}
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
	store  artifact.Store
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

func (c *checking) wantKind(what string, err error, kind core.Kind) {
	if !errors.Is(err, kind) {
		c.faultf("%s: got error %v, want %s", what, err, kind)
	}
}

func (c *checking) create(run, name string) artifact.Writer {
	w, err := c.store.Create(c.ctx, run, name)
	c.must(fmt.Sprintf("Create %q", name), err)
	return w
}

func (c *checking) put(run, name, content string) core.Artifact {
	w := c.create(run, name)
	defer w.Abort()
	_, err := io.WriteString(w, content)
	c.must(fmt.Sprintf("Write %q", name), err)
	a, err := w.Commit("")
	c.must(fmt.Sprintf("Commit %q", name), err)
	return a
}

// names lists a run's files, with spaces between.
func (c *checking) names(run string) string {
	list, err := c.store.List(c.ctx, run)
	c.must("List "+run, err)
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

func (c *checking) read(run, name string) string {
	f, _, err := c.store.Open(c.ctx, run, name)
	c.must(fmt.Sprintf("Open %q", name), err)
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(f)
	c.must(fmt.Sprintf("Read %q", name), err)
	return string(content)
}

func testCommit(c *checking) {
	w := c.create("run", "a.txt")
	defer w.Abort()
	_, err := io.WriteString(w, "hello ")
	c.must("Write", err)
	if names := c.names("run"); names != "" {
		c.faultf("before Commit, List has %s", names)
	}
	_, _, err = c.store.Open(c.ctx, "run", "a.txt")
	c.wantKind("Open before Commit", err, core.ErrNotFound)
	_, err = io.WriteString(w, "world")
	c.must("Write", err)
	_, err = w.Commit("text/plain")
	c.must("Commit", err)
	if got := c.read("run", "a.txt"); got != "hello world" {
		c.faultf("after Commit, the content is %q", got)
	}
}

func testRecord(c *checking) {
	before := time.Now().Add(-time.Second)
	a := c.put("run-1", "d/ü.csv", "x,y\n")
	sum := sha256.Sum256([]byte("x,y\n"))
	if a.Run != "run-1" || a.Name != "d/ü.csv" || a.Size != 4 || a.SHA256 != hex.EncodeToString(sum[:]) || a.URI != core.ArtifactURI("run-1", "d/ü.csv") {
		c.faultf("Commit returned %+v", a)
	}
	if a.Created.Before(before) || a.Created.After(time.Now().Add(time.Second)) {
		c.faultf("it says it was created at %v", a.Created)
	}
	list, err := c.store.List(c.ctx, "run-1")
	c.must("List", err)
	if len(list) != 1 || !same(list[0], a) {
		c.faultf("Commit returned %+v, List %+v", a, list)
	}
}

// same compares what two calls say of one file.
func same(a, b core.Artifact) bool {
	sameTime := a.Created.Equal(b.Created)
	a.Created, b.Created, a.Preview, b.Preview = time.Time{}, time.Time{}, nil, nil
	return sameTime && a == b
}

func testTwice(c *checking) {
	c.put("run", "a.txt", "first")
	_, err := c.store.Create(c.ctx, "run", "a.txt")
	c.wantKind("Create of an existing name", err, core.ErrInvalid)
	if got := c.read("run", "a.txt"); got != "first" {
		c.faultf("the content became %q", got)
	}
	c.put("other", "a.txt", "another run's")
	one := c.create("run", "b.txt")
	defer one.Abort()
	two, err := c.store.Create(c.ctx, "run", "b.txt")
	if err == nil {
		defer two.Abort()
		_, err = one.Commit("")
		c.must("Commit of the first", err)
		_, err = two.Commit("")
	}
	c.wantKind("two writers of one name", err, core.ErrInvalid)
}

func testAbort(c *checking) {
	w := c.create("run", "a.txt")
	_, err := io.WriteString(w, "half")
	c.must("Write", err)
	w.Abort()
	w.Abort()
	if names := c.names("run"); names != "" {
		c.faultf("after Abort, List has %s", names)
	}
	_, err = w.Commit("")
	if err == nil {
		c.faultf("Commit after Abort succeeded")
	}
	w = c.create("run", "a.txt")
	_, err = io.WriteString(w, "whole")
	c.must("Write", err)
	_, err = w.Commit("")
	c.must("Commit", err)
	w.Abort()
	if got := c.read("run", "a.txt"); got != "whole" {
		c.faultf("after Commit and Abort, the content is %q", got)
	}
}

func testNames(c *checking) {
	bad := []string{
		"", "/", "/etc/passwd", ".", "..", "../a", "a/../b", "a/..", "a/.", "./a", "a//b", "a/", "a\x00b", "\xff",
		strings.Repeat("n", 256), strings.Repeat("d/", 40) + "n", strings.Repeat(strings.Repeat("n", 200)+"/", 6) + "n",
	}
	for _, name := range bad {
		w, err := c.store.Create(c.ctx, "run", name)
		c.wantKind(fmt.Sprintf("Create %q", name), err, core.ErrInvalid)
		if err == nil {
			w.Abort()
		}
		f, _, err := c.store.Open(c.ctx, "run", name)
		if err == nil {
			_ = f.Close()
			c.faultf("Open %q succeeded", name)
		}
	}
	if names := c.names("run"); names != "" {
		c.faultf("List has %s", names)
	}
}

func testStrangeNames(c *checking) {
	strange := []string{
		"it's.txt", "a b", ` "q" `, "ü/漢字.png", "new\nline", "-rf", "a\\b", "%2e%2e", "...", "~", "*?[x]", ".hidden", "CON", "Case", "case",
		strings.Repeat("n", 255), strings.Repeat("d/", 31) + "n",
	}
	for _, name := range strange {
		c.put("run", name, "content of "+name)
	}
	for _, name := range strange {
		if got := c.read("run", name); got != "content of "+name {
			c.faultf("%q holds %q", name, got)
		}
	}
	list, err := c.store.List(c.ctx, "run")
	c.must("List", err)
	if len(list) != len(strange) {
		c.faultf("List has %d of %d files", len(list), len(strange))
	}
}

func testRuns(c *checking) {
	for _, run := range []string{"", ".", "..", "../x", "a/b", "a b", "ü", "a\x00", strings.Repeat("r", 65)} {
		w, err := c.store.Create(c.ctx, run, "a")
		c.wantKind(fmt.Sprintf("Create in run %q", run), err, core.ErrInvalid)
		if err == nil {
			w.Abort()
		}
		_, _, err = c.store.Open(c.ctx, run, "a")
		if err == nil {
			c.faultf("Open in run %q succeeded", run)
		}
	}
}

func testOpen(c *checking) {
	want := c.put("run", "a.txt", "0123456789")
	for range 2 {
		f, got, err := c.store.Open(c.ctx, "run", "a.txt")
		c.must("Open", err)
		if !same(got, want) {
			c.faultf("Open says %+v, Commit said %+v", got, want)
		}
		_, err = f.Seek(4, io.SeekStart)
		c.must("Seek", err)
		rest, err := io.ReadAll(f)
		c.must("Read", err)
		if string(rest) != "456789" {
			c.faultf("from byte 4 it reads %q", rest)
		}
		c.must("Close", f.Close())
	}
	if got := c.read("run", "a.txt"); got != "0123456789" {
		c.faultf("a new Open reads %q", got)
	}
}

func testOpenUnknown(c *checking) {
	c.put("run", "d/a.txt", "x")
	for _, at := range [][2]string{{"run", "b.txt"}, {"other", "d/a.txt"}, {"run", "d"}, {"run", "d/a.txt/x"}} {
		f, _, err := c.store.Open(c.ctx, at[0], at[1])
		c.wantKind(fmt.Sprintf("Open %q", at), err, core.ErrNotFound)
		if err == nil {
			_ = f.Close()
		}
	}
}

func testMIME(c *checking) {
	for _, tt := range []struct{ name, content, want string }{
		{"a.png", "not really", "image/png"},
		{"plot", "\x89PNG\r\n\x1a\n...", "image/png"},
		{"a.csv", "a,b", "text/csv; charset=utf-8"},
		{"blob", "\x00\x01", "application/octet-stream"},
	} {
		if a := c.put("run", tt.name, tt.content); a.MIMEType != tt.want {
			c.faultf("%s is %s, not %s", tt.name, a.MIMEType, tt.want)
		}
	}
	w := c.create("run", "b.png")
	defer w.Abort()
	a, err := w.Commit("text/x-own")
	c.must("Commit", err)
	if a.MIMEType != "text/x-own" {
		c.faultf("a type that was given became %s", a.MIMEType)
	}
}

func testList(c *checking) {
	for _, name := range []string{"b", "a/z", "c", "a/b/c"} {
		c.put("run", name, name)
	}
	c.put("other", "x", "x")
	if got := c.names("run"); got != "a/b/c a/z b c" {
		c.faultf("List has %s", got)
	}
	if got := c.names("unknown"); got != "" {
		c.faultf("an unknown run has %s", got)
	}
}

func testRemove(c *checking) {
	c.put("run", "d/a", "x")
	c.put("other", "a", "x")
	c.must("Remove", c.store.Remove(c.ctx, "run"))
	if got := c.names("run"); got != "" {
		c.faultf("after Remove, List has %s", got)
	}
	_, _, err := c.store.Open(c.ctx, "run", "d/a")
	c.wantKind("Open after Remove", err, core.ErrNotFound)
	if got := c.names("other"); got != "a" {
		c.faultf("the other run has %s", got)
	}
	c.must("Remove of a removed run", c.store.Remove(c.ctx, "run"))
	c.must("Remove of an unknown run", c.store.Remove(c.ctx, "unknown"))
}

func (c *checking) sweep(before time.Time, maxBytes int64, want int) {
	n, err := c.store.Sweep(c.ctx, before, maxBytes)
	c.must("Sweep", err)
	if n != want {
		c.faultf("Sweep says it removed %d runs, not %d", n, want)
	}
}

// later waits until the clock has moved on, so that the next file is newer.
func later(a core.Artifact) {
	for !time.Now().Truncate(time.Millisecond).After(a.Created) {
		time.Sleep(time.Millisecond)
	}
}

func testSweepAge(c *checking) {
	c.put("old", "a", "x")
	c.put("mixed", "a", "x")
	last := c.put("old", "b", "x")
	later(last)
	newer := c.put("mixed", "b", "x")
	c.sweep(last.Created, 0, 0)
	c.sweep(newer.Created, 0, 1)
	if c.names("old") != "" || c.names("mixed") != "a b" {
		c.faultf("after a sweep by age: old has %q, mixed has %q", c.names("old"), c.names("mixed"))
	}
	c.sweep(time.Now().Add(time.Hour), 0, 1)
	if got := c.names("mixed"); got != "" {
		c.faultf("a sweep of everything leaves %s", got)
	}
}

func testSweepSize(c *checking) {
	for _, run := range []string{"one", "two", "three"} {
		c.put(run, "a", "12345")
		later(c.put(run, "b", "12345"))
	}
	long := time.Now().Add(-time.Hour)
	c.sweep(long, 0, 0)
	c.sweep(long, 30, 0)
	c.sweep(long, 29, 1)
	if c.names("one") != "" || c.names("two") != "a b" || c.names("three") != "a b" {
		c.faultf("a sweep to 29 bytes leaves %q, %q, %q", c.names("one"), c.names("two"), c.names("three"))
	}
	c.sweep(long, 1, 2)
}

func testSweepOpen(c *checking) {
	w := c.create("run", "a")
	defer w.Abort()
	_, err := io.WriteString(w, "half")
	c.must("Write", err)
	_, err = c.store.Sweep(c.ctx, time.Now().Add(-time.Hour), 1<<20)
	c.must("Sweep", err)
	_, err = w.Commit("")
	c.must("Commit after a sweep", err)
	if got := c.read("run", "a"); got != "half" {
		c.faultf("it reads %q", got)
	}
}

func testConcurrent(c *checking) {
	const writers, each = 8, 10
	var group sync.WaitGroup
	for n := range writers {
		run := fmt.Sprintf("run%d", n%4)
		group.Go(func() {
			defer func() { _ = recover() }() // a fault is noted already
			for i := range each {
				name := fmt.Sprintf("d%d/%d-%d", i%2, n, i)
				c.put(run, name, name)
				if got := c.read(run, name); got != name {
					c.faultf("%s reads %q", name, got)
				}
				c.create(run, name+"-aborted").Abort()
				_ = c.names(run)
				_, err := c.store.Sweep(c.ctx, time.Now().Add(-time.Hour), 1<<30)
				c.must("Sweep", err)
				_ = c.store.Remove(c.ctx, fmt.Sprintf("none%d", n))
			}
		})
	}
	group.Wait()
	for n := range 4 {
		if got := len(strings.Fields(c.names(fmt.Sprintf("run%d", n)))); got != 2*each {
			c.faultf("run%d has %d files of %d", n, got, 2*each)
		}
	}
}

func testFull(c *checking) {
	c.put("run", "a", strings.Repeat("x", 60))
	w, err := c.store.Create(c.ctx, "run", "b")
	if err == nil {
		defer w.Abort()
		for range 3 {
			if _, err = io.WriteString(w, strings.Repeat("x", 30)); err != nil {
				break
			}
		}
		defer func() {
			w.Abort()
			c.put("run", "c", strings.Repeat("x", 40))
			if got := strings.Fields(c.names("run")); !slices.Equal(got, []string{"a", "c"}) {
				c.faultf("at the end it has %s", got)
			}
		}()
	}
	c.wantKind("60 and 90 bytes in 100", err, core.ErrExhausted)
}

func testRoom(c *checking) {
	later(c.put("oldest", "a", strings.Repeat("x", 30)))
	later(c.put("written", "a", strings.Repeat("x", 30)))
	later(c.put("newest", "a", strings.Repeat("x", 30)))
	c.put("written", "b", strings.Repeat("x", 35))
	if c.names("oldest") != "" || c.names("written") != "a b" || c.names("newest") != "a" {
		c.faultf("when there is no room, there stay %q, %q, %q", c.names("oldest"), c.names("written"), c.names("newest"))
	}
	c.put("written", "c", strings.Repeat("x", 10))
	if c.names("written") != "a b c" || c.names("newest") != "" {
		c.faultf("when there is no room again, there stay %q, %q", c.names("written"), c.names("newest"))
	}
	w := c.create("written", "d")
	defer w.Abort()
	_, err := io.WriteString(w, strings.Repeat("x", 30))
	c.wantKind("a run that is too big alone", err, core.ErrExhausted)
}
