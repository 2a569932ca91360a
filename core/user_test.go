package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestCheckUser(t *testing.T) {
	good := core.User{ID: "u-1", Name: "Änn@team", Role: core.RoleUser}
	if err := core.CheckUser(good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*core.User){
		"no id":         func(u *core.User) { u.ID = "" },
		"no name":       func(u *core.User) { u.Name = "" },
		"a blank":       func(u *core.User) { u.Name = "a b" },
		"a line":        func(u *core.User) { u.Name = "a\n" },
		"not UTF-8":     func(u *core.User) { u.Name = "\xff" },
		"too long":      func(u *core.User) { u.Name = strings.Repeat("a", 65) },
		"no role":       func(u *core.User) { u.Role = "" },
		"unknown role":  func(u *core.User) { u.Role = "root" },
		"an id of what": func(u *core.User) { u.ID = "a b" },
	} {
		u := good
		spoil(&u)
		if err := core.CheckUser(u); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestKeyState(t *testing.T) {
	now := time.Unix(1000, 0)
	for want, k := range map[core.KeyState]core.Key{
		core.KeyActive:  {Expires: now.Add(1)},
		core.KeyExpired: {Expires: now, ReplacedBy: "k2"},
		core.KeyRotated: {ReplacedBy: "k2", Expires: now.Add(1)},
		core.KeyRevoked: {Revoked: now.Add(-1), Expires: now.Add(-1), ReplacedBy: "k2"},
	} {
		if got := k.State(now); got != want {
			t.Errorf("%+v is %s, want %s", k, got, want)
		}
	}
	if got := (core.Key{}).State(now); got != core.KeyActive {
		t.Errorf("a key that never expires is %s", got)
	}
}

func TestRotationNeverLengthensAKey(t *testing.T) {
	soon, late := time.Unix(10, 0), time.Unix(20, 0)
	if k := (core.Key{Expires: soon}).RotatedTo("n", late); !k.Expires.Equal(soon) || k.ReplacedBy != "n" {
		t.Errorf("got %+v", k)
	}
	for _, before := range []core.Key{{}, {Expires: late}} {
		if k := before.RotatedTo("n", soon); !k.Expires.Equal(soon) {
			t.Errorf("got %+v", k)
		}
	}
}

func TestScrub(t *testing.T) {
	scrubber := core.NewScrubber()
	for text, want := range map[string]string{
		"x bxw_abc234_zzzzzzzz_0a1b2c3d y":                                       "x [secret] y",
		"eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln":                               "[secret]",
		"git clone https://ann:hunter2@host/x":                                   "git clone https://[secret]@host/x",
		"h = {'Authorization': 'Bearer abcdef0123456789'}":                       "h = {'Authorization': 'Bearer [secret]'}",
		`password = "hunter2"; x = 1`:                                            `password = [secret]; x = 1`,
		"API_KEY=abc123 python x.py":                                             "API_KEY=[secret] python x.py",
		"AKIAIOSFODNN7EXAMPLE":                                                   "[secret]",
		"ghp_0123456789abcdefghij":                                               "[secret]",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx": "[secret]\nx",
		"tokens = tokenize(text)\nprint(https_url)":                              "tokens = tokenize(text)\nprint(https_url)",
		"http://host:8080/a@b":                                                   "http://host:8080/a@b",
	} {
		if got := scrubber.Scrub(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
