package identitytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

func userChecks() []Check {
	return []Check{
		{"add user", "AddUser keeps a new user.", testAddUser, false},
		{"user twice", "AddUser: an id or a name that there is already is core.ErrInvalid.", testUserTwice, false},
		{"faulty user", "AddUser: one that core.CheckUser refuses is core.ErrInvalid.", testFaultyUser, false},
		{"find user", "User returns the user with that id or, failing that, that name, or core.ErrNotFound.", testFindUser, false},
		{"update user", "UpdateUser: change sees the present state, and what it leaves is kept, but for ID and Created.", testUpdateUser, false},
		{"update user refused", "UpdateUser: an error of change, an unknown id and what AddUser would refuse change nothing.", testUpdateUserRefused, false},
		{"list users", "Users lists all users by name.", testListUsers, false},
		{"remove user", "RemoveUser forgets a user and its keys. An unknown id is no error.", testRemoveUser, false},
		{"users at once", "Of several that add one name at once, one wins; no change is lost.", testUsersAtOnce, false},
		{"users shared", "Stores are shared by all servers of an installation.", testUsersShared, true},
	}
}

func testAddUser(c *checking) {
	full := core.User{ID: "u-ann", Name: "Änn", Role: core.RoleAdmin, Disabled: true, Created: at(3)}
	c.Must("AddUser", c.AddUser(c.ctx, full))
	got, err := c.User(c.ctx, "u-ann")
	c.Must("User", err)
	c.want("the user", got, full)
}

func testUserTwice(c *checking) {
	c.annAndBob()
	for _, twice := range []core.User{user("ann"), {ID: "u-ann", Name: "x", Role: core.RoleUser}, {ID: "y", Name: "ANN", Role: core.RoleUser}} {
		c.WantKind("AddUser "+twice.ID+" "+twice.Name, c.AddUser(c.ctx, twice), core.ErrInvalid)
	}
	err := c.AddUser(c.ctx, core.User{ID: "y", Name: "ANN", Role: core.RoleUser})
	c.want("the error of a name", fmt.Sprint(err), fmt.Sprint(identity.ErrUserTaken("ann")))
	c.wantUsers("ann bob")
}

func (c *checking) wantUsers(want string) {
	list, err := c.Users(c.ctx)
	c.Must("Users", err)
	c.want("the list", names(list, func(u core.User) string { return u.Name }), want)
}

func testFaultyUser(c *checking) {
	for _, faulty := range []core.User{{}, {ID: "u", Name: "n"}, {ID: "u", Role: core.RoleUser}, {ID: "u", Name: "a b", Role: core.RoleUser}, {Name: "n", Role: core.RoleUser}} {
		c.WantKind("AddUser of a faulty one", c.AddUser(c.ctx, faulty), core.ErrInvalid)
	}
	c.wantUsers("")
}

func testFindUser(c *checking) {
	c.annAndBob()
	c.Must("AddUser", c.AddUser(c.ctx, core.User{ID: "bob", Name: "carl", Role: core.RoleUser}))
	for asked, want := range map[string]string{"u-ann": "u-ann", "ann": "u-ann", "ANN": "u-ann", "bob": "bob", "u-bob": "u-bob", "carl": "bob"} {
		got, err := c.User(c.ctx, asked)
		if err != nil || got.ID != want {
			c.Faultf("User %q is %q, %v; not %q", asked, got.ID, err, want)
		}
	}
	for _, unknown := range []string{"", "dora", "u-"} {
		_, err := c.User(c.ctx, unknown)
		c.WantKind("User "+unknown, err, core.ErrNotFound)
	}
}

func testUpdateUser(c *checking) {
	c.annAndBob()
	c.Must("UpdateUser", c.UpdateUser(c.ctx, "u-ann", func(u *core.User) error {
		c.want("what change sees", *u, user("ann"))
		*u = core.User{ID: "other", Name: "Ann", Role: core.RoleAdmin, Disabled: true, Created: at(9)}
		return nil
	}))
	got, err := c.User(c.ctx, "u-ann")
	c.Must("User", err)
	c.want("the user", got, core.User{ID: "u-ann", Name: "Ann", Role: core.RoleAdmin, Disabled: true, Created: at(1)})
}

func testUpdateUserRefused(c *checking) {
	c.annAndBob()
	no := errors.New("no")
	for _, tt := range []struct {
		id     string
		change func(*core.User) error
		want   error
	}{
		{"u-ann", func(u *core.User) error { u.Disabled = true; return no }, no},
		{"ann", func(*core.User) error { return nil }, core.ErrNotFound},
		{"u-ann", func(u *core.User) error { u.Name = "Bob"; return nil }, core.ErrInvalid},
		{"u-ann", func(u *core.User) error { u.Role = "king"; return nil }, core.ErrInvalid},
	} {
		if err := c.UpdateUser(c.ctx, tt.id, tt.change); !errors.Is(err, tt.want) {
			c.Faultf("UpdateUser %s: got %v, want %v", tt.id, err, tt.want)
		}
	}
	got, err := c.User(c.ctx, "u-ann")
	c.Must("User", err)
	c.want("the user", got, user("ann"))
}

func testListUsers(c *checking) {
	for _, name := range []string{"carl", "Bob", "ann"} {
		c.Must("AddUser", c.AddUser(c.ctx, user(name)))
	}
	c.wantUsers("ann Bob carl")
}

func testRemoveUser(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	c.addKey(key("k2", "bob"))
	c.Must("RemoveUser", c.RemoveUser(c.ctx, "u-ann"))
	c.Must("RemoveUser of an unknown one", c.RemoveUser(c.ctx, "u-ann"))
	c.wantUsers("bob")
	_, _, err := c.Key(c.ctx, "k1")
	c.WantKind("Key of a removed user", err, core.ErrNotFound)
	c.wantKeys("", "k2")
}

func testUsersAtOnce(c *checking) {
	won := atOnce(8, func(i int) error {
		return c.AddUser(c.ctx, core.User{ID: fmt.Sprint("u", i), Name: "one", Role: core.RoleUser})
	})
	c.want("how many added one name", won, 1)
	c.Must("AddUser", c.AddUser(c.ctx, user("n")))
	atOnce(8, func(int) error {
		return c.UpdateUser(c.ctx, "u-n", func(u *core.User) error { u.Name += "x"; return nil })
	})
	got, err := c.User(c.ctx, "u-n")
	c.Must("User", err)
	c.want("the name", got.Name, "nxxxxxxxx")
}

func testUsersShared(c *checking) {
	other := c.open()
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	if _, u, err := other.Key(c.ctx, "k1"); err != nil || u.Name != "ann" {
		c.Faultf("the other sees %+v, %v", u, err)
	}
	c.Must("RemoveUser", other.RemoveUser(c.ctx, "u-bob"))
	c.wantUsers("ann")
	c.Must("Touch", other.Touch(c.ctx, map[string]time.Time{"k1": at(5)}))
	used := key("k1", "ann")
	used.Used = at(5)
	c.wantKey(used)
}
