package sessiontest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// RunsChecks lists every check of a session.Runs.
func RunsChecks() []Check {
	return []Check{
		{"put", "Put keeps a run, or the new state of one that is kept: what comes back is what was put.", testPut, false},
		{"put back", "A run goes from under way to lost, or to ended, and from lost to ended; putting it the other way, or one that has ended, is core.ErrInvalid and changes nothing.", testPutBack, false},
		{"put ids", "An id that is not a run's is core.ErrInvalid.", testPutIDs, false},
		{"put another's", "Putting another owner's run is core.ErrInvalid and changes nothing.", testPutAnothers, false},
		{"nobody", `An owner is never "".`, testPutNobody, false},
		{"strange texts", "What comes back is what was put, whatever bytes its texts hold.", testStrangeRuns, false},
		{"own copy", "What comes back is the caller's own.", testOwnRun, false},
		{"get", `Get returns the owner's run, or core.ErrNotFound; "" is everybody's.`, testGetRun, false},
		{"list", `List returns the owner's runs, the latest first; "" is everybody's.`, testListRuns, false},
		{"list pages", "List returns runs that began before, at most limit and those that began at the same moment as the last; a limit under 1 is core.ErrInvalid.", testListPages, false},
		{"list brief", "List returns runs as Brief does.", testListBrief, false},
		{"under way", "UnderWay returns all runs that are under way, the latest first.", testUnderWay, false},
		{"sweep", "Sweep forgets runs that ended, or were lost, before, and tells how many they were.", testSweep, false},
		{"trim", "Trim has the runs that ended first lose what Brief leaves out, until what is kept is at most room bytes, and tells how many they were.", testTrim, false},
		{"settled once", "A run that ended stays so, whoever puts it at the same time.", testSettledOnce, false},
		{"take over", "TakeOver gives a run that is under way from one server to another; one that is not that server's, has ended or does not exist is core.ErrNotFound.", testTakeOver, false},
		{"taken once", "Of several that want to take over a run at once one gets it.", testTakenOnce, false},
		{"concurrent", "Every method may be called at the same time.", testRunsConcurrent, false},
		{"reopened", "What was put is there when the store is opened again.", testRunsReopened, true},
		{"shared", "All who have a store open see each other's changes.", testRunsShared, true},
	}
}

func (c *checking) put(r core.Run) core.Run {
	c.Must("Put "+r.ID, c.Runs.Put(c.ctx, r))
	return r
}

func (c *checking) wantRun(owner string, want core.Run) {
	got, err := c.Runs.Get(c.ctx, owner, want.ID)
	c.Must("Get "+want.ID, err)
	c.wantSame("Get", got, want)
}

func runIDs(list []core.Run) string { return ids(list, func(r core.Run) string { return r.ID }) }

func (c *checking) list(owner string, before time.Time, limit int) []core.Run {
	list, err := c.Runs.List(c.ctx, owner, before, limit)
	c.Must("List", err)
	return list
}

func (c *checking) wantUnderWay(want string) {
	list, err := c.Runs.UnderWay(c.ctx)
	c.Must("UnderWay", err)
	c.wantText("UnderWay", runIDs(list), want)
}

func testPut(c *checking) {
	full, r := fullRun("full"), sampleRun("r")
	c.put(full)
	c.put(r)
	c.wantRun("ann", full)
	c.wantRun("ann", r)
	r.Box = "box"
	c.wantRun("ann", c.put(r))
	r = ended(r, 3)
	r.Record.Stderr = core.Output{Head: []byte("\xff\x00"), Tail: []byte("z"), Total: 1 << 40, Spilled: 7}
	c.wantRun("ann", c.put(r))
	c.wantRun("ann", full)
}

func testPutBack(c *checking) {
	puts := 0
	state := func(s core.RunState) core.Run {
		puts++
		r := ended(sampleRun("r"), puts)
		r.State = s
		return r
	}
	refused := func(now core.Run, states ...core.RunState) {
		for _, s := range states {
			c.WantKind(fmt.Sprintf("Put as %q of one that is %s", s, now.State), c.Runs.Put(c.ctx, state(s)), core.ErrInvalid)
			c.wantRun("ann", now)
		}
	}
	c.put(state(core.RunUnderWay))
	lost := c.put(state(core.RunLost))
	refused(lost, core.RunUnderWay, "", "odd")
	over := c.put(state(core.RunEnded))
	refused(over, core.RunUnderWay, core.RunLost, core.RunEnded, "", "odd")
}

func testPutIDs(c *checking) {
	for _, id := range []string{"", ".", "../x", "a b", "a\x00", "ü", strings.Repeat("r", 65)} {
		c.WantKind(fmt.Sprintf("Put of %q", id), c.Runs.Put(c.ctx, sampleRun(id)), core.ErrInvalid)
	}
	c.wantText("List", runIDs(c.list("", time.Time{}, 10)), "")
}

func testPutAnothers(c *checking) {
	r := c.put(sampleRun("r"))
	bobs := ended(r, 1)
	bobs.Owner = "bob"
	c.WantKind("Put of another's", c.Runs.Put(c.ctx, bobs), core.ErrInvalid)
	c.wantRun("ann", r)
}

func testPutNobody(c *checking) {
	r := sampleRun("r")
	r.Owner = ""
	c.WantKind("Put without an owner", c.Runs.Put(c.ctx, r), core.ErrInvalid)
	c.wantUnderWay("")
}

func testStrangeRuns(c *checking) {
	for i, text := range strange() {
		r := ended(sampleRun(fmt.Sprint("r", i)), i)
		r.Owner, r.Summary, r.Language = text, text, text
		r.Record.Warnings, r.Record.Install, r.Record.Stdout.Head = []string{text, ""}, text, []byte(text)
		r.Record.Displays = []core.Display{{MIMEType: text, Data: []byte(text)}}
		r.Record.Durations = map[core.Phase]time.Duration{core.Phase(text): 1}
		c.wantRun(text, c.put(r))
		c.wantText("List", runIDs(c.list(text, time.Time{}, 10)), r.ID)
		_, err := c.Runs.Get(c.ctx, text, text)
		c.WantKind("Get of a strange id", err, core.ErrNotFound)
	}
}

func testOwnRun(c *checking) {
	put := fullRun("r")
	c.put(put)
	spoil(reflect.ValueOf(&put).Elem())
	c.wantRun("ann", fullRun("r"))
	got, err := c.Runs.Get(c.ctx, "ann", "r")
	c.Must("Get", err)
	spoil(reflect.ValueOf(&got).Elem())
	list := c.list("ann", time.Time{}, 1)
	spoil(reflect.ValueOf(&list).Elem())
	c.wantRun("ann", fullRun("r"))
}

func testGetRun(c *checking) {
	r := c.put(sampleRun("r"))
	c.wantRun("ann", r)
	c.wantRun("", r)
	for _, at := range [][2]string{{"bob", "r"}, {"Ann", "r"}, {"ann", "R"}, {"ann", "x"}, {"", ""}, {"ann", "%"}} {
		_, err := c.Runs.Get(c.ctx, at[0], at[1])
		c.WantKind(fmt.Sprintf("Get %q", at), err, core.ErrNotFound)
	}
}

// began puts a run for each id, which began that many nanoseconds after the others.
func (c *checking) began(ids string, after time.Duration) {
	for id := range strings.FieldsSeq(ids) {
		r := sampleRun(id)
		r.Started = epoch().Add(after)
		c.put(r)
	}
}

func testListRuns(c *checking) {
	c.began("c", 3)
	c.began("a", 1)
	c.began("d", time.Hour)
	bobs := sampleRun("b")
	bobs.Owner, bobs.Started = "bob", epoch().Add(2)
	c.put(ended(bobs, 1))
	for owner, want := range map[string]string{"ann": "d c a", "bob": "b", "": "d c b a", "eve": ""} {
		c.wantText("List of "+owner, runIDs(c.list(owner, time.Time{}, 10)), want)
	}
}

func testListPages(c *checking) {
	c.began("a", 1)
	c.began("b1 b2 b3", 2)
	c.began("c", 3)
	bobs := sampleRun("bobs")
	bobs.Owner, bobs.Started = "bob", epoch().Add(2)
	c.put(bobs)
	at := func(n time.Duration) time.Time { return epoch().Add(n) }
	for _, tt := range []struct {
		before time.Time
		limit  int
		want   int
	}{{time.Time{}, 1, 1}, {time.Time{}, 2, 4}, {time.Time{}, 4, 4}, {time.Time{}, 5, 5}, {at(3), 1, 3}, {at(2), 1, 1}, {at(1), 1, 0}, {at(4), 100, 5}} {
		if list := c.list("ann", tt.before, tt.limit); len(list) != tt.want {
			c.Faultf("List before %v, at most %d, has %q, not %d runs", tt.before, tt.limit, runIDs(list), tt.want)
		}
	}
	c.wantPages()
	for _, limit := range []int{0, -1} {
		_, err := c.Runs.List(c.ctx, "ann", time.Time{}, limit)
		c.WantKind(fmt.Sprint("List of ", limit), err, core.ErrInvalid)
	}
}

// wantPages goes through all of ann's runs, page by page.
func (c *checking) wantPages() {
	var seen []core.Run
	var before time.Time
	for page := c.list("ann", before, 2); len(page) > 0 && len(seen) < 10; page = c.list("ann", before, 2) {
		seen = append(seen, page...)
		before = page[len(page)-1].Started
	}
	if len(seen) != 5 || seen[0].ID != "c" || seen[4].ID != "a" {
		c.Faultf("the pages have %s", runIDs(seen))
	}
}

func testListBrief(c *checking) {
	full := c.put(fullRun("r"))
	got := c.list("ann", time.Time{}, 1)
	if !c.wantSame("List", got, []core.Run{session.Brief(full)}) {
		return
	}
	record := got[0].Record
	if out := record.Stdout; len(out.Head)+len(out.Tail) > 0 || out.Total == 0 {
		c.Faultf("List has the output %+v", out)
	}
	if record.Files[1].Preview != nil || record.Files[1].Name == "" || record.Displays[1].Data != nil || record.Displays[1].MIMEType == "" {
		c.Faultf("List has the files %+v and shows %+v", record.Files, record.Displays)
	}
	c.wantRun("ann", full)
}

func testUnderWay(c *checking) {
	c.began("a", 1)
	c.began("c", 3)
	bobs := sampleRun("b")
	bobs.Owner, bobs.Started = "bob", epoch().Add(2)
	c.put(bobs)
	c.put(ended(sampleRun("over"), 1))
	lost := sampleRun("lost")
	lost.State = core.RunLost
	c.put(lost)
	c.wantUnderWay("c b a")
	c.put(ended(bobs, 1))
	c.wantUnderWay("c a")
}

func testSweep(c *checking) {
	c.put(sampleRun("way"))
	for i := range 3 {
		c.put(ended(sampleRun(fmt.Sprint("r", i)), i))
	}
	lost, when := ended(sampleRun("lost"), 1), sampleRun("when")
	lost.State, when.State = core.RunLost, core.RunLost
	c.put(lost)
	c.put(when)
	for _, step := range []struct {
		before time.Duration
		want   string
		n      int
	}{{0, "lost r0 r1 r2 way when", 0}, {1, "lost r1 r2 way", 2}, {time.Second, "lost r1 r2 way", 0}, {time.Second + 1, "r2 way", 2}, {time.Hour, "way", 1}} {
		n, err := c.Runs.Sweep(c.ctx, epoch().Add(step.before))
		c.Must("Sweep", err)
		if n != step.n {
			c.Faultf("Sweep says it forgot %d runs, not %d", n, step.n)
		}
		for id := range strings.FieldsSeq("lost r0 r1 r2 way when") {
			_, err := c.Runs.Get(c.ctx, "ann", id)
			if has := err == nil; has != strings.Contains(step.want+" ", id+" ") {
				c.Faultf("after a sweep before %v, Get %s: %v", step.before, id, err)
			}
		}
	}
}

func testTrim(c *checking) {
	const size = 100_000
	way := sampleRun("way")
	way.Record.Stdout.Head = make([]byte, size)
	c.put(way)
	var runs []core.Run
	for i := range 5 { // begun the other way round
		r := ended(sampleRun(fmt.Sprint("r", i)), i)
		r.Started = epoch().Add(-time.Duration(i) * time.Minute)
		r.Record.Files = []core.Artifact{{Run: r.ID, Name: "a.png", Created: epoch(), Preview: &core.Preview{MIMEType: "image/png", Data: make([]byte, size)}}}
		runs = append(runs, c.put(r))
	}
	for _, step := range []struct {
		room     int64
		n, whole int
	}{{100 * size, 0, 5}, {290_000, 3, 2}, {290_000, 0, 2}, {0, 2, 0}, {0, 0, 0}} {
		n, err := c.Runs.Trim(c.ctx, step.room)
		c.Must("Trim", err)
		if n != step.n {
			c.Faultf("Trim to %d bytes says that %d runs lost something, not %d", step.room, n, step.n)
		}
		for i, r := range runs {
			if i < len(runs)-step.whole {
				r = session.Trimmed(r)
			}
			c.wantRun("ann", r)
		}
		c.wantRun("ann", way)
	}
	c.WantKind("Put of a run that lost something", c.Runs.Put(c.ctx, runs[0]), core.ErrInvalid)
}

func testSettledOnce(c *checking) {
	for round := range 20 {
		r := c.put(sampleRun(fmt.Sprint("r", round)))
		over, lost := ended(r, 1), r
		lost.State = core.RunLost
		puts := []core.Run{lost, over, r, lost}
		atOnce(len(puts), func(i int) error { return c.Runs.Put(c.ctx, puts[i]) })
		c.wantRun("ann", over)
	}
}

func testTakeOver(c *checking) {
	full := fullRun("full")
	full.State = core.RunUnderWay
	runs := []core.Run{c.put(full), c.put(sampleRun("r"))}
	for i, text := range strange() {
		r := sampleRun(fmt.Sprint("r", i))
		r.Server = text
		runs = append(runs, c.put(r))
	}
	for _, r := range runs {
		from := r.Server
		c.Must("TakeOver", c.Runs.TakeOver(c.ctx, r.ID, from, "two"))
		r.Server = "two"
		c.wantRun("ann", r)
		c.WantKind("TakeOver of what is another's", c.Runs.TakeOver(c.ctx, r.ID, from, "three"), core.ErrNotFound)
		c.wantRun("ann", r)
	}
	over := c.put(ended(sampleRun("over"), 1))
	for _, id := range []string{"over", "x", "", "R"} {
		c.WantKind("TakeOver of "+id, c.Runs.TakeOver(c.ctx, id, "one", "two"), core.ErrNotFound)
	}
	c.wantRun("ann", over)
}

func testTakenOnce(c *checking) {
	c.put(sampleRun("r"))
	failed := atOnce(20, func(i int) error { return c.Runs.TakeOver(c.ctx, "r", "one", fmt.Sprint("server", i)) })
	if len(failed) != 19 {
		c.Faultf("of 20 servers that want a run, %d are refused", len(failed))
	}
	for _, err := range failed {
		c.WantKind("TakeOver of what was taken", err, core.ErrNotFound)
	}
}

func testRunsConcurrent(c *checking) {
	failed := atOnce(50, func(i int) error {
		r := sampleRun(fmt.Sprint("r", i))
		if err := c.Runs.Put(c.ctx, r); err != nil {
			return err
		}
		if _, err := c.Runs.List(c.ctx, "ann", time.Time{}, 5); err != nil {
			return err
		}
		if _, err := c.Runs.UnderWay(c.ctx); err != nil {
			return err
		}
		if _, err := c.Runs.Sweep(c.ctx, epoch()); err != nil {
			return err
		}
		return c.Runs.Put(c.ctx, ended(r, 1))
	})
	for _, err := range failed {
		c.Faultf("at the same time: %v", err)
	}
	if n := len(c.list("ann", time.Time{}, 100)); n != 50 {
		c.Faultf("of 50 runs %d are kept", n)
	}
}

func testRunsReopened(c *checking) {
	full, way := c.put(fullRun("r1")), c.put(sampleRun("r2"))
	c.put(sampleRun("r3"))
	over := c.put(ended(sampleRun("r3"), 1))
	c.reopen()
	c.wantRun("ann", full)
	c.wantRun("ann", way)
	c.wantRun("ann", over)
	c.wantUnderWay("r2")
	c.WantKind("Put back after opening", c.Runs.Put(c.ctx, sampleRun("r3")), core.ErrInvalid)
}

func testRunsShared(c *checking) {
	other := c.other()
	defer func() { _ = other.Close() }()
	r := c.put(sampleRun("r"))
	other.wantRun("ann", r)
	other.Must("TakeOver", other.Runs.TakeOver(c.ctx, "r", "one", "two"))
	c.WantKind("TakeOver of what another took", c.Runs.TakeOver(c.ctx, "r", "one", "three"), core.ErrNotFound)
	r.Server = "two"
	over := other.put(ended(r, 1))
	c.wantRun("ann", over)
	c.WantKind("Put back what another settled", c.Runs.Put(c.ctx, r), core.ErrInvalid)
	both := []*checking{c, other}
	for _, err := range atOnce(40, func(i int) error { return both[i%2].Runs.Put(c.ctx, sampleRun(fmt.Sprint("r", i))) }) {
		c.Faultf("Put: %v", err)
	}
	if n := len(other.list("ann", time.Time{}, 100)); n != 41 {
		c.Faultf("of 41 runs %d are kept", n)
	}
}
