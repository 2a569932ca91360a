package identitytest

import (
	"fmt"

	"github.com/boxwright/boxwright/core"
)

func setupChecks() []Check {
	return []Check{
		{"redeem", "Redeem keeps an administrator and its first key, for the token with that hash.", testRedeem, false},
		{"redeem once", "Redeem: the token is then good for nothing: of several that want it at once one gets it.", testRedeemOnce, false},
		{"not redeemed", "Redeem: another hash, a token whose time is over, and none are core.ErrDenied.", testNotRedeemed, false},
		{"redeem faulty", "Redeem: what AddUser or AddKey would refuse is core.ErrInvalid, and the token stays good.", testRedeemFaulty, false},
		{"offer again", "Offer keeps the hash of a token in place of the one before.", testOfferAgain, false},
		{"offer late", "Offer is core.ErrInvalid as soon as there is an administrator, and Redeem core.ErrDenied.", testOfferLate, false},
	}
}

func admin() core.User {
	return core.User{ID: "u-root", Name: "root", Role: core.RoleAdmin, Created: at(1)}
}

func token(n byte) (hash [32]byte) {
	hash[31] = n
	return hash
}

func (c *checking) offer(n byte) { c.Must("Offer", c.Offer(c.ctx, token(n), at(10))) }

func testRedeem(c *checking) {
	c.annAndBob()
	c.offer(1)
	c.Must("Redeem", c.Redeem(c.ctx, token(1), at(9), admin(), key("k1", "root")))
	k, u, err := c.Key(c.ctx, "k1")
	c.Must("Key", err)
	c.want("the key", k, key("k1", "root"))
	c.want("its user", u, admin())
}

func testRedeemOnce(c *checking) {
	c.offer(1)
	won := atOnce(8, func(i int) error {
		id := fmt.Sprintf("n%d", i)
		u := core.User{ID: "u-" + id, Name: id, Role: core.RoleAdmin}
		return c.Redeem(c.ctx, token(1), at(9), u, key(id, id))
	})
	c.want("how many redeemed it", won, 1)
	list, err := c.Users(c.ctx)
	c.Must("Users", err)
	c.want("how many users there are", len(list), 1)
	c.Must("RemoveUser", c.RemoveUser(c.ctx, list[0].ID))
	c.WantKind("Redeem once more", c.Redeem(c.ctx, token(1), at(9), admin(), key("k1", "root")), core.ErrDenied)
}

func testNotRedeemed(c *checking) {
	redeem := func(n byte, minute int) error {
		return c.Redeem(c.ctx, token(n), at(minute), admin(), key("k1", "root"))
	}
	c.WantKind("Redeem of none", redeem(0, 9), core.ErrDenied)
	c.offer(1)
	c.WantKind("Redeem of another", redeem(2, 9), core.ErrDenied)
	c.WantKind("Redeem too late", redeem(1, 10), core.ErrDenied)
	c.wantUsers("")
}

func testRedeemFaulty(c *checking) {
	c.annAndBob()
	c.addKey(key("k1", "ann"))
	c.offer(1)
	taken := admin()
	taken.Name = "ann"
	c.WantKind("Redeem with a name that there is", c.Redeem(c.ctx, token(1), at(9), taken, key("k2", "root")), core.ErrInvalid)
	c.WantKind("Redeem with a key that there is", c.Redeem(c.ctx, token(1), at(9), admin(), key("k1", "root")), core.ErrInvalid)
	c.wantUsers("ann bob")
	c.Must("Redeem after that", c.Redeem(c.ctx, token(1), at(9), admin(), key("k2", "root")))
}

func testOfferAgain(c *checking) {
	c.offer(1)
	c.offer(2)
	c.WantKind("Redeem of the one before", c.Redeem(c.ctx, token(1), at(9), admin(), key("k1", "root")), core.ErrDenied)
	c.Must("Redeem", c.Redeem(c.ctx, token(2), at(9), admin(), key("k1", "root")))
}

func testOfferLate(c *checking) {
	c.offer(1)
	there := admin()
	there.Disabled = true
	c.Must("AddUser", c.AddUser(c.ctx, there))
	c.WantKind("Offer", c.Offer(c.ctx, token(2), at(10)), core.ErrInvalid)
	second := core.User{ID: "u-x", Name: "x", Role: core.RoleAdmin}
	c.WantKind("Redeem", c.Redeem(c.ctx, token(1), at(9), second, key("k1", "x")), core.ErrDenied)
	c.wantUsers("root")
}
