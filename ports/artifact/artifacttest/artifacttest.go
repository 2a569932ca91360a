// Package artifacttest checks the promises of artifact.Store, one check for each sentence.
//
// It is for the tests of stores: each makes one and hands it to Run.
package artifacttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/internal/findings"
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
	return checking.Of(func() { c.test(checking) })
}

// checking is one check at work.
type checking struct {
	findings.Findings
	ctx   context.Context
	store artifact.Store
}

func (c *checking) create(run, name string) artifact.Writer {
	w, err := c.store.Create(c.ctx, run, name)
	c.Must(fmt.Sprintf("Create %q", name), err)
	return w
}

func (c *checking) put(run, name, content string) core.Artifact {
	w := c.create(run, name)
	defer w.Abort()
	_, err := io.WriteString(w, content)
	c.Must(fmt.Sprintf("Write %q", name), err)
	a, err := w.Commit("")
	c.Must(fmt.Sprintf("Commit %q", name), err)
	return a
}

// names lists a run's files, with spaces between.
func (c *checking) names(run string) string {
	list, err := c.store.List(c.ctx, run)
	c.Must("List "+run, err)
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

func (c *checking) read(run, name string) string {
	f, _, err := c.store.Open(c.ctx, run, name)
	c.Must(fmt.Sprintf("Open %q", name), err)
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(f)
	c.Must(fmt.Sprintf("Read %q", name), err)
	return string(content)
}

func testCommit(c *checking) {
	w := c.create("run", "a.txt")
	defer w.Abort()
	_, err := io.WriteString(w, "hello ")
	c.Must("Write", err)
	if names := c.names("run"); names != "" {
		c.Faultf("before Commit, List has %s", names)
	}
	_, _, err = c.store.Open(c.ctx, "run", "a.txt")
	c.WantKind("Open before Commit", err, core.ErrNotFound)
	_, err = io.WriteString(w, "world")
	c.Must("Write", err)
	_, err = w.Commit("text/plain")
	c.Must("Commit", err)
	if got := c.read("run", "a.txt"); got != "hello world" {
		c.Faultf("after Commit, the content is %q", got)
	}
}

func testRecord(c *checking) {
	before := time.Now().Add(-time.Second)
	a := c.put("run-1", "d/ü.csv", "x,y\n")
	sum := sha256.Sum256([]byte("x,y\n"))
	if a.Run != "run-1" || a.Name != "d/ü.csv" || a.Size != 4 || a.SHA256 != hex.EncodeToString(sum[:]) || a.URI != core.ArtifactURI("run-1", "d/ü.csv") {
		c.Faultf("Commit returned %+v", a)
	}
	if a.Created.Before(before) || a.Created.After(time.Now().Add(time.Second)) {
		c.Faultf("it says it was created at %v", a.Created)
	}
	list, err := c.store.List(c.ctx, "run-1")
	c.Must("List", err)
	if len(list) != 1 || !same(list[0], a) {
		c.Faultf("Commit returned %+v, List %+v", a, list)
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
	c.WantKind("Create of an existing name", err, core.ErrInvalid)
	if got := c.read("run", "a.txt"); got != "first" {
		c.Faultf("the content became %q", got)
	}
	c.put("other", "a.txt", "another run's")
	one := c.create("run", "b.txt")
	defer one.Abort()
	two, err := c.store.Create(c.ctx, "run", "b.txt")
	if err == nil {
		defer two.Abort()
		_, err = one.Commit("")
		c.Must("Commit of the first", err)
		_, err = two.Commit("")
	}
	c.WantKind("two writers of one name", err, core.ErrInvalid)
}

func testAbort(c *checking) {
	w := c.create("run", "a.txt")
	_, err := io.WriteString(w, "half")
	c.Must("Write", err)
	w.Abort()
	w.Abort()
	if names := c.names("run"); names != "" {
		c.Faultf("after Abort, List has %s", names)
	}
	_, err = w.Commit("")
	if err == nil {
		c.Faultf("Commit after Abort succeeded")
	}
	w = c.create("run", "a.txt")
	_, err = io.WriteString(w, "whole")
	c.Must("Write", err)
	_, err = w.Commit("")
	c.Must("Commit", err)
	w.Abort()
	if got := c.read("run", "a.txt"); got != "whole" {
		c.Faultf("after Commit and Abort, the content is %q", got)
	}
}

func testNames(c *checking) {
	bad := []string{
		"", "/", "/etc/passwd", ".", "..", "../a", "a/../b", "a/..", "a/.", "./a", "a//b", "a/", "a\x00b", "\xff",
		strings.Repeat("n", 256), strings.Repeat("d/", 40) + "n", strings.Repeat(strings.Repeat("n", 200)+"/", 6) + "n",
	}
	for _, name := range bad {
		w, err := c.store.Create(c.ctx, "run", name)
		c.WantKind(fmt.Sprintf("Create %q", name), err, core.ErrInvalid)
		if err == nil {
			w.Abort()
		}
		f, _, err := c.store.Open(c.ctx, "run", name)
		if err == nil {
			_ = f.Close()
			c.Faultf("Open %q succeeded", name)
		}
	}
	if names := c.names("run"); names != "" {
		c.Faultf("List has %s", names)
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
			c.Faultf("%q holds %q", name, got)
		}
	}
	list, err := c.store.List(c.ctx, "run")
	c.Must("List", err)
	if len(list) != len(strange) {
		c.Faultf("List has %d of %d files", len(list), len(strange))
	}
}

func testRuns(c *checking) {
	for _, run := range []string{"", ".", "..", "../x", "a/b", "a b", "ü", "a\x00", strings.Repeat("r", 65)} {
		w, err := c.store.Create(c.ctx, run, "a")
		c.WantKind(fmt.Sprintf("Create in run %q", run), err, core.ErrInvalid)
		if err == nil {
			w.Abort()
		}
		_, _, err = c.store.Open(c.ctx, run, "a")
		if err == nil {
			c.Faultf("Open in run %q succeeded", run)
		}
	}
}

func testOpen(c *checking) {
	want := c.put("run", "a.txt", "0123456789")
	for range 2 {
		f, got, err := c.store.Open(c.ctx, "run", "a.txt")
		c.Must("Open", err)
		if !same(got, want) {
			c.Faultf("Open says %+v, Commit said %+v", got, want)
		}
		_, err = f.Seek(4, io.SeekStart)
		c.Must("Seek", err)
		rest, err := io.ReadAll(f)
		c.Must("Read", err)
		if string(rest) != "456789" {
			c.Faultf("from byte 4 it reads %q", rest)
		}
		c.Must("Close", f.Close())
	}
	if got := c.read("run", "a.txt"); got != "0123456789" {
		c.Faultf("a new Open reads %q", got)
	}
}

func testOpenUnknown(c *checking) {
	c.put("run", "d/a.txt", "x")
	for _, at := range [][2]string{{"run", "b.txt"}, {"other", "d/a.txt"}, {"run", "d"}, {"run", "d/a.txt/x"}} {
		f, _, err := c.store.Open(c.ctx, at[0], at[1])
		c.WantKind(fmt.Sprintf("Open %q", at), err, core.ErrNotFound)
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
			c.Faultf("%s is %s, not %s", tt.name, a.MIMEType, tt.want)
		}
	}
	w := c.create("run", "b.png")
	defer w.Abort()
	a, err := w.Commit("text/x-own")
	c.Must("Commit", err)
	if a.MIMEType != "text/x-own" {
		c.Faultf("a type that was given became %s", a.MIMEType)
	}
}

func testList(c *checking) {
	for _, name := range []string{"b", "a/z", "c", "a/b/c"} {
		c.put("run", name, name)
	}
	c.put("other", "x", "x")
	if got := c.names("run"); got != "a/b/c a/z b c" {
		c.Faultf("List has %s", got)
	}
	if got := c.names("unknown"); got != "" {
		c.Faultf("an unknown run has %s", got)
	}
}

func testRemove(c *checking) {
	c.put("run", "d/a", "x")
	c.put("other", "a", "x")
	c.Must("Remove", c.store.Remove(c.ctx, "run"))
	if got := c.names("run"); got != "" {
		c.Faultf("after Remove, List has %s", got)
	}
	_, _, err := c.store.Open(c.ctx, "run", "d/a")
	c.WantKind("Open after Remove", err, core.ErrNotFound)
	if got := c.names("other"); got != "a" {
		c.Faultf("the other run has %s", got)
	}
	c.Must("Remove of a removed run", c.store.Remove(c.ctx, "run"))
	c.Must("Remove of an unknown run", c.store.Remove(c.ctx, "unknown"))
}

func (c *checking) sweep(before time.Time, maxBytes int64, want int) {
	n, err := c.store.Sweep(c.ctx, before, maxBytes)
	c.Must("Sweep", err)
	if n != want {
		c.Faultf("Sweep says it removed %d runs, not %d", n, want)
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
		c.Faultf("after a sweep by age: old has %q, mixed has %q", c.names("old"), c.names("mixed"))
	}
	c.sweep(time.Now().Add(time.Hour), 0, 1)
	if got := c.names("mixed"); got != "" {
		c.Faultf("a sweep of everything leaves %s", got)
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
		c.Faultf("a sweep to 29 bytes leaves %q, %q, %q", c.names("one"), c.names("two"), c.names("three"))
	}
	c.sweep(long, 1, 2)
}

func testSweepOpen(c *checking) {
	w := c.create("run", "a")
	defer w.Abort()
	_, err := io.WriteString(w, "half")
	c.Must("Write", err)
	_, err = c.store.Sweep(c.ctx, time.Now().Add(-time.Hour), 1<<20)
	c.Must("Sweep", err)
	_, err = w.Commit("")
	c.Must("Commit after a sweep", err)
	if got := c.read("run", "a"); got != "half" {
		c.Faultf("it reads %q", got)
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
					c.Faultf("%s reads %q", name, got)
				}
				c.create(run, name+"-aborted").Abort()
				_ = c.names(run)
				_, err := c.store.Sweep(c.ctx, time.Now().Add(-time.Hour), 1<<30)
				c.Must("Sweep", err)
				_ = c.store.Remove(c.ctx, fmt.Sprintf("none%d", n))
			}
		})
	}
	group.Wait()
	for n := range 4 {
		if got := len(strings.Fields(c.names(fmt.Sprintf("run%d", n)))); got != 2*each {
			c.Faultf("run%d has %d files of %d", n, got, 2*each)
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
				c.Faultf("at the end it has %s", got)
			}
		}()
	}
	c.WantKind("60 and 90 bytes in 100", err, core.ErrExhausted)
}

func testRoom(c *checking) {
	later(c.put("oldest", "a", strings.Repeat("x", 30)))
	later(c.put("written", "a", strings.Repeat("x", 30)))
	later(c.put("newest", "a", strings.Repeat("x", 30)))
	c.put("written", "b", strings.Repeat("x", 35))
	if c.names("oldest") != "" || c.names("written") != "a b" || c.names("newest") != "a" {
		c.Faultf("when there is no room, there stay %q, %q, %q", c.names("oldest"), c.names("written"), c.names("newest"))
	}
	c.put("written", "c", strings.Repeat("x", 10))
	if c.names("written") != "a b c" || c.names("newest") != "" {
		c.Faultf("when there is no room again, there stay %q, %q", c.names("written"), c.names("newest"))
	}
	w := c.create("written", "d")
	defer w.Abort()
	_, err := io.WriteString(w, strings.Repeat("x", 30))
	c.WantKind("a run that is too big alone", err, core.ErrExhausted)
}
