package sessiontest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// StoreChecks lists every check of a session.Store.
func StoreChecks() []Check {
	return []Check{
		{"add", "Add keeps a new session: what comes back is what was put.", testAdd, false},
		{"twice", `Add of an id that exists, or is "", is core.ErrInvalid.`, testAddTwice, false},
		{"names", "A name or a client that another session of the owner's has that is not lost is core.ErrInvalid.", testAddName, false},
		{"add at once", "Of several that add one name at once, one wins.", testAddAtOnce, false},
		{"nobody", `An owner is never "".`, testAddNobody, false},
		{"strange texts", "What comes back is what was put, whatever bytes its texts hold.", testStrangeSessions, false},
		{"own copy", "What comes back is the caller's own.", testOwnSession, false},
		{"get", "Get returns the owner's session with that id or, failing that, the latest with that name that is not lost, or else the latest.", testGetSession, false},
		{"get unknown", `Get of what does not exist, or is somebody else's, is core.ErrNotFound; "" names nothing.`, testGetUnknownSession, false},
		{"of client", "OfClient returns the owner's session of a connection that is not lost, or core.ErrNotFound.", testOfClient, false},
		{"update", "Update: change sees the present state, and what it leaves is kept.", testUpdate, false},
		{"update refused", "Update: if change returns an error, Update returns it and nothing is kept. The store goes on.", testUpdateRefused, false},
		{"update unknown", "Update of an unknown id is core.ErrNotFound.", testUpdateUnknown, false},
		{"update name", "Update to a name or a client that Add would refuse is core.ErrInvalid and keeps nothing.", testUpdateName, false},
		{"update identity", "Update: ID, Owner and Created stay as they are.", testUpdateIdentity, false},
		{"update at once", "Update is one step: none is lost.", testUpdateAtOnce, false},
		{"list", `List returns the owner's sessions, the oldest first, lost ones too; "" is everybody's.`, testListSessions, false},
		{"remove", "Remove forgets a session. An unknown id is no error.", testRemove, false},
		{"reopened", "What was put is there when the store is opened again.", testSessionsReopened, true},
		{"shared", "All who have a store open see each other's changes, and none of those is lost.", testSessionsShared, true},
	}
}

func (c *checking) add(s core.Session) { c.Must("Add "+s.ID, c.Sessions.Add(c.ctx, s)) }

func (c *checking) update(id string, change func(*core.Session)) {
	err := c.Sessions.Update(c.ctx, id, func(s *core.Session) error { change(s); return nil })
	c.Must("Update "+id, err)
}

func (c *checking) wantSession(owner, idOrName string, want core.Session) {
	got, err := c.Sessions.Get(c.ctx, owner, idOrName)
	c.Must(fmt.Sprintf("Get %.50q", idOrName), err)
	c.wantSame(fmt.Sprintf("Get %.50q", idOrName), got, want)
}

func (c *checking) noSession(owner, idOrName string) {
	_, err := c.Sessions.Get(c.ctx, owner, idOrName)
	c.WantKind(fmt.Sprintf("Get %.50q as %.50q", idOrName, owner), err, core.ErrNotFound)
}

func (c *checking) wantSessions(owner, want string) {
	list, err := c.Sessions.List(c.ctx, owner)
	c.Must("List", err)
	c.wantText(fmt.Sprintf("List %.50q", owner), ids(list, func(s core.Session) string { return s.ID }), want)
}

func testAdd(c *checking) {
	full, bare := fullSession("full"), core.Session{ID: "bare", Owner: "ann", Created: epoch()}
	c.add(full)
	c.add(bare)
	c.wantSession("ann", "full", full)
	c.wantSession("ann", "bare", bare)
}

func testAddTwice(c *checking) {
	c.add(sampleSession("s"))
	for _, owner := range []string{"ann", "bob"} {
		again := core.Session{ID: "s", Owner: owner, Created: epoch()}
		c.WantKind("Add of an existing id", c.Sessions.Add(c.ctx, again), core.ErrInvalid)
	}
	c.wantSession("ann", "s", sampleSession("s"))
	c.WantKind(`Add of ""`, c.Sessions.Add(c.ctx, sampleSession("")), core.ErrInvalid)
	c.wantSessions("", "s")
}

// named are two sessions that collide, by name and by client.
func named(id, name, client string) core.Session {
	s := sampleSession(id)
	s.Name, s.Client = name, client
	return s
}

func testAddName(c *checking) {
	c.add(named("s1", "n", ""))
	c.add(named("s2", "", "c"))
	c.WantKind("Add of a name in use", c.Sessions.Add(c.ctx, named("s3", "n", "")), core.ErrInvalid)
	c.WantKind("Add of a client in use", c.Sessions.Add(c.ctx, named("s3", "", "c")), core.ErrInvalid)
	bobs := named("s4", "n", "c")
	bobs.Owner = "bob"
	c.add(bobs)
	c.add(named("s5", "N", "C"))
	c.add(named("s6", "", ""))
	c.add(named("s7", "", ""))
	lost := named("s8", "n", "c")
	lost.Lost = "gone"
	c.add(lost)
	c.update("s1", func(s *core.Session) { s.Lost = "gone" })
	c.update("s2", func(s *core.Session) { s.Lost = "gone" })
	c.add(named("s9", "n", "c"))
	c.wantSessions("ann", "s1 s2 s5 s6 s7 s8 s9")
}

func testAddAtOnce(c *checking) {
	for round := range 5 {
		name := fmt.Sprint("name", round)
		failed := atOnce(20, func(i int) error { return c.Sessions.Add(c.ctx, named(fmt.Sprint("s", round, "-", i), name, "")) })
		if len(failed) != 19 {
			c.Faultf("of 20 sessions of one name, %d were refused", len(failed))
		}
		for _, err := range failed {
			c.WantKind("Add of a name in use", err, core.ErrInvalid)
		}
	}
}

func testAddNobody(c *checking) {
	nobody := sampleSession("s")
	nobody.Owner = ""
	c.WantKind("Add without an owner", c.Sessions.Add(c.ctx, nobody), core.ErrInvalid)
	c.wantSessions("", "")
	c.add(sampleSession("s"))
	c.noSession("", "s")
}

func testStrangeSessions(c *checking) {
	for i, text := range strange() {
		s := named(fmt.Sprint("s", i), text, text)
		s.Owner, s.Box, s.Lost = text, text, ""
		s.Requirements = []string{text}
		c.add(s)
		c.wantSession(text, s.ID, s)
		c.wantSession(text, text, s)
		got, err := c.Sessions.OfClient(c.ctx, text, text)
		c.Must("OfClient", err)
		c.wantSame("OfClient", got, s)
		c.wantSessions(text, s.ID)
		c.WantKind("Add of a name in use", c.Sessions.Add(c.ctx, func() core.Session { s.ID += "again"; return s }()), core.ErrInvalid)
	}
	for _, text := range strange() {
		c.noSession("ann", text)
		c.Must("Remove", c.Sessions.Remove(c.ctx, text))
	}
}

func testOwnSession(c *checking) {
	put := fullSession("s")
	c.add(put)
	spoil(reflect.ValueOf(&put).Elem())
	c.wantSession("ann", "s", fullSession("s"))
	got, err := c.Sessions.Get(c.ctx, "ann", "s")
	c.Must("Get", err)
	spoil(reflect.ValueOf(&got).Elem())
	list, err := c.Sessions.List(c.ctx, "ann")
	c.Must("List", err)
	spoil(reflect.ValueOf(&list).Elem())
	var seen core.Session
	c.update("s", func(s *core.Session) { seen = *s })
	spoil(reflect.ValueOf(&seen).Elem())
	c.wantSession("ann", "s", fullSession("s"))
}

func testGetSession(c *checking) {
	add := func(id, name, lost string, second int) core.Session {
		s := named(id, name, "")
		s.Lost, s.Created = lost, epoch().Add(time.Duration(second)*time.Second)
		c.add(s)
		return s
	}
	add("s1", "n", "gone", 1)
	s3 := add("s3", "n", "gone", 3)
	s2 := add("s2", "n", "gone", 2)
	c.wantSession("ann", "n", s3)
	c.wantSession("ann", "s2", s2)
	live := add("s0", "n", "", 0)
	c.wantSession("ann", "n", live)
	add("s9", "s2", "", 9)
	c.wantSession("ann", "s2", s2)
}

func testGetUnknownSession(c *checking) {
	c.add(named("s1", "n", ""))
	c.add(named("s2", "", ""))
	for _, at := range [][2]string{
		{"ann", ""}, {"ann", "s"}, {"ann", "S1"}, {"ann", "N"}, {"ann", "s%"}, {"bob", "s1"}, {"bob", "n"}, {"Ann", "s1"}, {"", "n"}, {"ann\x00", "n"}, {"ann", "n\x00"},
	} {
		c.noSession(at[0], at[1])
	}
}

func testOfClient(c *checking) {
	lost, live := named("s1", "", "c"), named("s2", "", "c")
	lost.Lost = "gone"
	c.add(lost)
	_, err := c.Sessions.OfClient(c.ctx, "ann", "c")
	c.WantKind("OfClient of a lost one", err, core.ErrNotFound)
	c.add(live)
	c.add(named("s3", "", ""))
	got, err := c.Sessions.OfClient(c.ctx, "ann", "c")
	c.Must("OfClient", err)
	c.wantSame("OfClient", got, live)
	for _, at := range [][2]string{{"bob", "c"}, {"", "c"}, {"ann", "d"}, {"ann", ""}, {"ann", "s2"}} {
		_, err := c.Sessions.OfClient(c.ctx, at[0], at[1])
		c.WantKind(fmt.Sprintf("OfClient %q", at), err, core.ErrNotFound)
	}
}

func testUpdate(c *checking) {
	c.add(fullSession("s"))
	c.add(sampleSession("other"))
	want := sampleSession("s")
	want.Created, want.Name, want.Client = fullSession("s").Created, "new", "client"
	c.update("s", func(s *core.Session) {
		c.wantSame("what change sees", *s, fullSession("s"))
		*s = want
	})
	c.wantSession("ann", "s", want)
	c.wantSession("ann", "new", want)
	c.noSession("ann", fullSession("s").Name)
	c.update("s", func(s *core.Session) { c.wantSame("what a second change sees", *s, want) })
	c.wantSession("ann", "other", sampleSession("other"))
}

func testUpdateRefused(c *checking) {
	c.add(fullSession("s"))
	reason := core.Errorf(core.ErrDenied, "not now")
	err := c.Sessions.Update(c.ctx, "s", func(s *core.Session) error {
		spoil(reflect.ValueOf(s).Elem())
		s.Lost, s.Box = "", "another"
		return reason
	})
	if !errors.Is(err, reason) {
		c.Faultf("Update returned %v, not the error of change", err)
	}
	c.wantSession("ann", "s", fullSession("s"))
	func() {
		defer func() { _ = recover() }()
		_ = c.Sessions.Update(c.ctx, "s", func(*core.Session) error { panic("a fault in change") })
	}()
	c.wantSession("ann", "s", fullSession("s"))
	c.update("s", func(s *core.Session) { s.Box = "new" })
}

func testUpdateUnknown(c *checking) {
	for _, id := range []string{"s", "", "n"} {
		err := c.Sessions.Update(c.ctx, id, func(*core.Session) error {
			c.Faultf("change was called")
			return nil
		})
		c.WantKind("Update of an unknown id", err, core.ErrNotFound)
		c.wantSessions("", "")
	}
}

func testUpdateName(c *checking) {
	c.add(named("s1", "n", "c"))
	c.add(named("s2", "m", "d"))
	lost := named("s3", "n", "c")
	lost.Lost = "gone"
	c.add(lost)
	for what, change := range map[string]func(*core.Session){
		"a name in use":   func(s *core.Session) { s.Name, s.Client, s.Lost = "m", "", "" },
		"a client in use": func(s *core.Session) { s.Name, s.Client, s.Lost = "", "d", "" },
	} {
		for _, id := range []string{"s1", "s3"} {
			err := c.Sessions.Update(c.ctx, id, func(s *core.Session) error { change(s); return nil })
			c.WantKind("Update to "+what, err, core.ErrInvalid)
		}
	}
	c.wantSession("ann", "s1", named("s1", "n", "c"))
	c.wantSession("ann", "s3", lost)
	c.update("s1", func(s *core.Session) { s.Lost = "gone" })
	c.update("s3", func(s *core.Session) { s.Lost = "" })
}

func testUpdateIdentity(c *checking) {
	c.add(sampleSession("s"))
	c.update("s", func(s *core.Session) {
		s.ID, s.Owner, s.Created, s.Box = "t", "bob", epoch().Add(time.Hour), "new"
	})
	want := sampleSession("s")
	want.Box = "new"
	c.wantSession("ann", "s", want)
	c.wantSessions("", "s")
	c.wantSessions("bob", "")
}

func testUpdateAtOnce(c *checking) {
	s := sampleSession("s")
	s.MaxAge = 0
	c.add(s)
	failed := atOnce(100, func(int) error {
		return c.Sessions.Update(c.ctx, "s", func(s *core.Session) error { s.MaxAge++; return nil })
	})
	for _, err := range failed {
		c.Faultf("Update: %v", err)
	}
	s.MaxAge = 100
	c.wantSession("ann", "s", s)
}

func testListSessions(c *checking) {
	for i, id := range strings.Fields("c a d b e") {
		s := sampleSession(id)
		s.Created = epoch().Add(time.Duration(id[0]) * time.Nanosecond)
		if i == 2 {
			s.Lost = "gone"
		}
		if id == "b" {
			s.Owner = "bob"
		}
		c.add(s)
	}
	c.wantSessions("ann", "a c d e")
	c.wantSessions("bob", "b")
	c.wantSessions("", "a b c d e")
	c.wantSessions("nobody", "")
	full := fullSession("full")
	full.Owner = "eve"
	c.add(full)
	list, err := c.Sessions.List(c.ctx, "eve")
	c.Must("List", err)
	c.wantSame("List", list, []core.Session{full})
}

func testRemove(c *checking) {
	c.add(named("s1", "n", "c"))
	c.add(named("s2", "m", "d"))
	c.Must("Remove", c.Sessions.Remove(c.ctx, "s1"))
	c.Must("Remove of a removed one", c.Sessions.Remove(c.ctx, "s1"))
	c.Must("Remove of a name", c.Sessions.Remove(c.ctx, "m"))
	c.wantSessions("", "s2")
	c.noSession("ann", "s1")
	c.noSession("ann", "n")
	_, err := c.Sessions.OfClient(c.ctx, "ann", "c")
	c.WantKind("OfClient of a removed one", err, core.ErrNotFound)
	c.add(named("s1", "n", "c"))
}

func testSessionsReopened(c *checking) {
	c.add(fullSession("s1"))
	c.add(sampleSession("s2"))
	c.add(sampleSession("s3"))
	c.update("s2", func(s *core.Session) { s.Box = "new" })
	c.Must("Remove", c.Sessions.Remove(c.ctx, "s3"))
	c.reopen()
	c.wantSession("ann", "s1", fullSession("s1"))
	want := sampleSession("s2")
	want.Box = "new"
	c.wantSession("ann", "s2", want)
	c.noSession("ann", "s3")
}

func testSessionsShared(c *checking) {
	other := c.other()
	defer func() { _ = other.Close() }()
	s := named("s", "n", "")
	s.MaxAge = 0
	c.add(s)
	other.wantSession("ann", "s", s)
	c.WantKind("Add of a name that another has", other.Sessions.Add(c.ctx, named("t", "n", "")), core.ErrInvalid)
	both := []*checking{c, other}
	for _, err := range atOnce(40, func(i int) error {
		return both[i%2].Sessions.Update(c.ctx, "s", func(s *core.Session) error { s.MaxAge++; return nil })
	}) {
		c.Faultf("Update: %v", err)
	}
	s.MaxAge = 40
	c.wantSession("ann", "s", s)
	other.wantSession("ann", "s", s)
	other.Must("Remove", other.Sessions.Remove(c.ctx, "s"))
	c.noSession("ann", "s")
}
