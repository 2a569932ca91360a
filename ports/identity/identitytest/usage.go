package identitytest

import (
	"fmt"
	"time"

	"github.com/boxwright/boxwright/core"
)

func recordChecks() []Check {
	return []Check{
		{"append", "Append keeps a record; what comes back is what was put.", testAppend, false},
		{"records", `Records: the latest first and among those of one moment the one appended last; "" is everybody's.`, testRecords, false},
		{"records pages", "Records: from before, at most limit of them; a limit under 1 is core.ErrInvalid.", testRecordPages, false},
		{"append at once", "Append: none is lost.", testAppendAtOnce, false},
		{"sweep records", "SweepRecords forgets the records from before, and tells how many they were.", testSweepRecords, false},
	}
}

func usageChecks() []Check {
	return []Check{
		{"spend", "Spend adds to a window and returns what that is now: adding nothing only asks.", testSpend, false},
		{"spend at once", "Spend: none is lost when several add at once.", testSpendAtOnce, false},
		{"sweep spending", "SweepSpending forgets the windows that began before.", testSweepSpending, false},
		{"hold", "Hold adds to what an owner keeps of a run's files. A negative amount gives back, down to none.", testHold, false},
		{"hold full", "Hold: more than most is core.ErrExhausted and changes nothing. most 0 is no bound.", testHoldFull, false},
		{"hold another's", "Hold: a run that somebody else holds is core.ErrInvalid.", testHoldAnothers, false},
		{"hold at once", "Hold: never more than most, however many hold at once.", testHoldAtOnce, false},
		{"holdings", `Holdings lists what an owner keeps, the oldest first; "" is everybody's.`, testHoldings, false},
		{"release", "Release forgets what is kept of a run. An unknown run is no error.", testRelease, false},
	}
}

func record(minute int, who, action string) core.AuditRecord {
	return core.AuditRecord{At: at(minute), Principal: who, Action: action, Outcome: "ok"}
}

func (c *checking) append(list ...core.AuditRecord) {
	for _, r := range list {
		c.Must("Append", c.Append(c.ctx, r))
	}
}

func (c *checking) wantRecords(who string, before time.Time, limit int, want string) {
	list, err := c.Records(c.ctx, who, before, limit)
	c.Must("Records", err)
	c.want("the records of "+who, names(list, func(r core.AuditRecord) string { return r.Action }), want)
}

func testAppend(c *checking) {
	full := core.AuditRecord{
		At: at(1), Principal: "https://issuer|ann", Credential: "k1", Action: "file.write", Target: "not UTF-8: \xff",
		Where: "docker", Code: "print('ü')\x00", Outcome: "denied",
	}
	c.append(full)
	list, err := c.Records(c.ctx, full.Principal, time.Time{}, 9)
	c.Must("Records", err)
	if len(list) != 1 {
		c.Faultf("%d records are there", len(list))
		return
	}
	c.want("the record", list[0], full)
}

func testRecords(c *checking) {
	c.append(record(3, "ann", "d"), record(1, "ann", "a"), record(2, "ann", "b"), record(2, "bob", "c"), record(2, "ann", "e"))
	c.wantRecords("ann", time.Time{}, 9, "d e b a")
	c.wantRecords("", time.Time{}, 9, "d e c b a")
	c.wantRecords("carl", time.Time{}, 9, "")
}

func testRecordPages(c *checking) {
	c.append(record(1, "ann", "a"), record(2, "ann", "b"), record(3, "ann", "c"))
	c.wantRecords("ann", at(3), 9, "b a")
	c.wantRecords("ann", at(3), 1, "b")
	c.wantRecords("", at(2), 9, "a")
	_, err := c.Records(c.ctx, "ann", time.Time{}, 0)
	c.WantKind("Records of none", err, core.ErrInvalid)
}

func testAppendAtOnce(c *checking) {
	c.want("how many were appended", atOnce(20, func(i int) error { return c.Append(c.ctx, record(i%3, "ann", "x")) }), 20)
	list, err := c.Records(c.ctx, "ann", time.Time{}, 99)
	c.Must("Records", err)
	c.want("how many are there", len(list), 20)
}

func testSweepRecords(c *checking) {
	c.append(record(1, "ann", "a"), record(2, "bob", "b"), record(3, "ann", "c"))
	n, err := c.SweepRecords(c.ctx, at(3))
	c.Must("SweepRecords", err)
	c.want("how many were forgotten", n, 2)
	c.wantRecords("", time.Time{}, 9, "c")
}

func (c *checking) wantSpent(owner string, window time.Time, more, want time.Duration) {
	got, err := c.Spend(c.ctx, owner, window, more)
	c.Must("Spend", err)
	c.want("what "+owner+" spent", got, want)
}

func testSpend(c *checking) {
	c.wantSpent("ann", at(1), 0, 0)
	c.wantSpent("ann", at(1), 1500*time.Millisecond, 1500*time.Millisecond)
	c.wantSpent("ann", at(1), 1, 1500*time.Millisecond+1)
	c.wantSpent("ann", at(2), time.Hour, time.Hour)
	c.wantSpent("bob", at(1), 0, 0)
	c.wantSpent("ann", at(1), 0, 1500*time.Millisecond+1)
}

func testSpendAtOnce(c *checking) {
	atOnce(20, func(int) error { _, err := c.Spend(c.ctx, "ann", at(1), time.Second); return err })
	c.wantSpent("ann", at(1), 0, 20*time.Second)
}

func testSweepSpending(c *checking) {
	c.wantSpent("ann", at(1), time.Second, time.Second)
	c.wantSpent("ann", at(2), time.Second, time.Second)
	c.Must("SweepSpending", c.SweepSpending(c.ctx, at(2)))
	c.wantSpent("ann", at(1), 0, 0)
	c.wantSpent("ann", at(2), 0, time.Second)
}

func held(run, owner string, bytes int64) core.Holding {
	return core.Holding{Run: run, Owner: owner, Bytes: bytes, Since: at(1)}
}

func (c *checking) hold(h core.Holding) { c.Must("Hold", c.Hold(c.ctx, h, 0)) }

func (c *checking) wantHolding(want core.Holding) {
	got, err := c.Holding(c.ctx, want.Run)
	c.Must("Holding", err)
	c.want("the holding", got, want)
}

func testHold(c *checking) {
	_, err := c.Holding(c.ctx, "r1")
	c.WantKind("Holding of an unknown run", err, core.ErrNotFound)
	c.hold(held("r1", "ann", 5))
	c.wantHolding(held("r1", "ann", 5))
	later := held("r1", "ann", 7)
	later.Since = at(9)
	c.hold(later)
	c.wantHolding(held("r1", "ann", 12))
	c.hold(held("r1", "ann", -2))
	c.wantHolding(held("r1", "ann", 10))
	c.hold(held("r1", "ann", -99))
	c.wantHolding(held("r1", "ann", 0))
}

func testHoldFull(c *checking) {
	c.hold(held("r1", "ann", 5))
	c.hold(held("r2", "bob", 1000))
	c.WantKind("Hold of too much", c.Hold(c.ctx, held("r3", "ann", 6), 10), core.ErrExhausted)
	c.WantKind("Hold of more", c.Hold(c.ctx, held("r1", "ann", 6), 10), core.ErrExhausted)
	_, err := c.Holding(c.ctx, "r3")
	c.WantKind("Holding of what was refused", err, core.ErrNotFound)
	c.wantHolding(held("r1", "ann", 5))
	c.Must("Hold of just enough", c.Hold(c.ctx, held("r3", "ann", 5), 10))
	c.Must("Hold of nothing", c.Hold(c.ctx, held("r4", "ann", 0), 5))
	c.Must("Hold that gives back", c.Hold(c.ctx, held("r1", "ann", -1), 5))
}

func testHoldAnothers(c *checking) {
	c.hold(held("r1", "ann", 5))
	c.WantKind("Hold of another's", c.Hold(c.ctx, held("r1", "bob", 1), 0), core.ErrInvalid)
	c.wantHolding(held("r1", "ann", 5))
}

func testHoldAtOnce(c *checking) {
	c.want("how many fit", atOnce(20, func(i int) error { return c.Hold(c.ctx, held(fmt.Sprintf("r%d", i), "ann", 3), 10) }), 3)
}

func (c *checking) wantHoldings(owner, want string) {
	list, err := c.Holdings(c.ctx, owner)
	c.Must("Holdings", err)
	c.want("what "+owner+" keeps", names(list, func(h core.Holding) string { return h.Run }), want)
}

func testHoldings(c *checking) {
	late := held("r1", "ann", 1)
	late.Since = at(2)
	for _, h := range []core.Holding{late, held("r3", "ann", 1), held("r2", "bob", 1)} {
		c.hold(h)
	}
	c.wantHoldings("ann", "r3 r1")
	c.wantHoldings("", "r2 r3 r1")
	c.wantHoldings("carl", "")
}

func testRelease(c *checking) {
	c.hold(held("r1", "ann", 1))
	c.hold(held("r2", "ann", 1))
	c.Must("Release", c.Release(c.ctx, "r1"))
	c.Must("Release of an unknown one", c.Release(c.ctx, "r1"))
	c.wantHoldings("ann", "r2")
}
