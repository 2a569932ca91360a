package identitytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/boxwright/boxwright/core"
)

func keyChecks() []Check {
	return []Check{
		{"add key", "AddKey keeps a new key; Key returns it and the user whose it is.", testAddKey, false},
		{"faulty key", "AddKey: one that core.CheckKey refuses, and an id that there is already, are core.ErrInvalid; an owner that is no user is core.ErrNotFound.", testFaultyKey, false},
		{"unknown key", "Key of an unknown id is core.ErrNotFound.", testUnknownKey, false},
		{"own key", "What comes back is the caller's own.", testOwnKey, false},
		{"update key", "UpdateKey keeps what change leaves, but for ID, Owner, Hash and Created.", testUpdateKey, false},
		{"update key refused", "UpdateKey: an error of change, an unknown id and what AddKey would refuse change nothing.", testUpdateKeyRefused, false},
		{"replace key", "ReplaceKey keeps a new key and has the old one be as Key.RotatedTo says.", testReplaceKey, false},
		{"replace key refused", "ReplaceKey: both or neither.", testReplaceKeyRefused, false},
		{"replaced once", "ReplaceKey: of several that replace one key at once, one does.", testReplacedOnce, false},
		{"list keys", `Keys lists the owner's keys, the oldest first; "" is everybody's.`, testListKeys, false},
		{"touch", "Touch notes when keys were used. An earlier time and an unknown key change nothing.", testTouch, false},
	}
}

func testAddKey(c *checking) {
	c.annAndBob()
	full := key("k1", "ann")
	full.Label, full.Scopes = "ännä's <laptop>", []core.Scope{core.ScopeRun, core.ScopeRead}
	full.Expires, full.Used, full.Revoked, full.ReplacedBy = at(10), at(11), at(12), "k9"
	nothing := key("k3", "ann")
	nothing.Scopes = []core.Scope{}
	for _, k := range []core.Key{full, key("k2", "bob"), nothing} {
		c.addKey(k)
		c.wantKey(k)
	}
	_, u, err := c.Key(c.ctx, "k2")
	c.Must("Key", err)
	c.want("the user of k2", u, user("bob"))
}

func testFaultyKey(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	c.WantKind("AddKey of an id that there is", c.AddKey(c.ctx, key("k1", "bob")), core.ErrInvalid)
	c.WantKind("AddKey of nobody's", c.AddKey(c.ctx, key("k2", "carl")), core.ErrNotFound)
	scoped := key("k3", "ann")
	scoped.Scopes = []core.Scope{"all"}
	labelled := key("k4", "ann")
	labelled.Label = "two\nlines"
	for _, k := range []core.Key{key("", "ann"), key("K_", "ann"), scoped, labelled} {
		c.WantKind("AddKey of a faulty one", c.AddKey(c.ctx, k), core.ErrInvalid)
	}
	c.wantKeys("", "k1")
	c.wantKey(key("k1", "ann"))
}

func testUnknownKey(c *checking) {
	c.annAndBob()
	for _, id := range []string{"", "k1"} {
		_, _, err := c.Key(c.ctx, id)
		c.WantKind("Key", err, core.ErrNotFound)
	}
}

func testOwnKey(c *checking) {
	c.annAndBob()
	k := key("k1", "ann")
	k.Scopes = []core.Scope{core.ScopeRun}
	c.addKey(k)
	k.Scopes[0] = core.ScopeAdmin
	got, _, err := c.Key(c.ctx, "k1")
	c.Must("Key", err)
	c.want("the scope", got.Scopes[0], core.ScopeRun)
	got.Scopes[0] = core.ScopeAdmin
	list, err := c.Keys(c.ctx, "")
	c.Must("Keys", err)
	c.want("the scope", list[0].Scopes[0], core.ScopeRun)
	list[0].Scopes[0] = core.ScopeAdmin
	got, _, err = c.Key(c.ctx, "k1")
	c.Must("Key", err)
	c.want("the scope", got.Scopes[0], core.ScopeRun)
}

func testUpdateKey(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	c.Must("UpdateKey", c.UpdateKey(c.ctx, "k1", func(k *core.Key) error {
		c.want("what change sees", *k, key("k1", "ann"))
		*k = key("k2", "bob")
		k.Created, k.Label, k.Revoked, k.Used = at(8), "new", at(9), at(7)
		return nil
	}))
	want := key("k1", "ann")
	want.Label, want.Revoked, want.Used = "new", at(9), at(7)
	c.wantKey(want)
	c.wantKeys("u-ann", "k1")
}

func testUpdateKeyRefused(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	no := errors.New("no")
	refused := func(k *core.Key) error { k.Label = "x"; return no }
	if err := c.UpdateKey(c.ctx, "k1", refused); !errors.Is(err, no) {
		c.Faultf("UpdateKey returned %v", err)
	}
	c.WantKind("UpdateKey of an unknown one", c.UpdateKey(c.ctx, "k2", func(*core.Key) error { return nil }), core.ErrNotFound)
	faulty := func(k *core.Key) error { k.Scopes = []core.Scope{"all"}; return nil }
	c.WantKind("UpdateKey to a faulty one", c.UpdateKey(c.ctx, "k1", faulty), core.ErrInvalid)
	c.wantKey(key("k1", "ann"))
}

func testReplaceKey(c *checking) {
	c.annAndBob()
	soon := key("k2", "ann")
	soon.Expires = at(4)
	c.addKey(key("k1", "ann"))
	c.addKey(soon)
	c.Must("ReplaceKey", c.ReplaceKey(c.ctx, "k1", key("n1", "ann"), at(5)))
	c.Must("ReplaceKey", c.ReplaceKey(c.ctx, "k2", key("n2", "ann"), at(5)))
	want := key("k1", "ann")
	want.ReplacedBy, want.Expires, soon.ReplacedBy = "n1", at(5), "n2"
	for _, k := range []core.Key{want, soon, key("n1", "ann"), key("n2", "ann")} {
		c.wantKey(k)
	}
}

func testReplaceKeyRefused(c *checking) {
	c.annAndBob()
	gone := key("k2", "ann")
	gone.Revoked = at(3)
	c.addKey(key("k1", "ann"))
	c.addKey(gone)
	faulty := key("n1", "ann")
	faulty.Scopes = []core.Scope{"all"}
	c.WantKind("ReplaceKey of an unknown one", c.ReplaceKey(c.ctx, "k9", key("n1", "ann"), at(5)), core.ErrNotFound)
	c.WantKind("ReplaceKey of a revoked one", c.ReplaceKey(c.ctx, "k2", key("n1", "ann"), at(5)), core.ErrInvalid)
	c.WantKind("ReplaceKey by another's", c.ReplaceKey(c.ctx, "k1", key("n1", "bob"), at(5)), core.ErrInvalid)
	c.WantKind("ReplaceKey by a faulty one", c.ReplaceKey(c.ctx, "k1", faulty, at(5)), core.ErrInvalid)
	c.WantKind("ReplaceKey by one that there is", c.ReplaceKey(c.ctx, "k1", key("k2", "ann"), at(5)), core.ErrInvalid)
	c.wantKey(key("k1", "ann"))
	c.wantKeys("", "k1 k2")
}

func testReplacedOnce(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	won := atOnce(8, func(i int) error { return c.ReplaceKey(c.ctx, "k1", key(fmt.Sprintf("n%d", i), "ann"), at(5)) })
	list, err := c.Keys(c.ctx, "")
	c.Must("Keys", err)
	c.want("how many replaced it", won, 1)
	c.want("how many keys there are", len(list), 2)
}

func (c *checking) wantKeys(owner, want string) {
	list, err := c.Keys(c.ctx, owner)
	c.Must("Keys", err)
	c.want("the keys of "+owner, names(list, func(k core.Key) string { return k.ID }), want)
}

func testListKeys(c *checking) {
	c.annAndBob()
	late := key("a", "ann")
	late.Created = at(3)
	for _, k := range []core.Key{late, key("c", "ann"), key("b", "bob")} {
		c.addKey(k)
	}
	c.wantKeys("", "b c a")
	c.wantKeys("u-ann", "c a")
	c.wantKeys("u-carl", "")
}

func testTouch(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	c.addKey(key("k2", "ann"))
	c.Must("Touch", c.Touch(c.ctx, map[string]time.Time{"k1": at(5), "k9": at(5)}))
	c.Must("Touch", c.Touch(c.ctx, map[string]time.Time{"k1": at(4), "k2": at(6)}))
	first, second := key("k1", "ann"), key("k2", "ann")
	first.Used, second.Used = at(5), at(6)
	c.wantKey(first)
	c.wantKey(second)
	c.wantKeys("", "k1 k2")
}
