package main

import (
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/links"
	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/core"
)

// keepFile keeps a file of a run, whose it is, and returns the link to it.
func keepFile(t *testing.T, s *system, run, owner string) string {
	t.Helper()
	w, err := s.artifacts.Create(t.Context(), run, "f.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err := io.WriteString(w, "x"); err != nil {
		t.Fatal(err)
	}
	kept, err := w.Commit("")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.identity.Hold(t.Context(), core.Holding{Run: run, Owner: owner, Bytes: 1, Since: time.Now()}, 0); err != nil {
		t.Fatal(err)
	}
	return s.links.File(kept)
}

// Links of a user are good for as long as the user is.
func TestLinksOfUsersThatAreGone(t *testing.T) {
	c := config.Default()
	c.Storage.Dir = t.TempDir()
	c.Files.Dir = c.Storage.Dir + "/files"
	s := &system{log: slog.New(slog.DiscardHandler)} // what needs no engine
	var err error
	if s.instance, err = disk.OpenInstance(c.Storage.Dir); err != nil {
		t.Fatal(err)
	}
	defer s.instance.Close()
	if err := s.openStores(c, ""); err != nil {
		t.Fatal(err)
	}
	defer s.database.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	routes, err := s.openLinks(c.HTTP, listener)
	if err != nil || len(routes) != len(links.Patterns()) {
		t.Fatal(routes, err)
	}
	ann := auth.NewUser("ann", core.RoleUser, time.Now())
	if err := s.identity.AddUser(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	link, others := keepFile(t, s, "r1", ann.ID), keepFile(t, s, "r2", "https://login.example|7")
	check := func(when, link string, status int, text string) {
		t.Helper()
		w := httptest.NewRecorder()
		routes[0].Handler.ServeHTTP(w, httptest.NewRequest("GET", link, nil))
		if w.Code != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %s, want %d", when, w.Code, w.Body, status)
		}
	}
	disable := func(is bool) {
		if err := s.identity.UpdateUser(t.Context(), ann.ID, func(u *core.User) error { u.Disabled = is; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	check("at first", link, 200, "x")
	disable(true)
	check("disabled", link, 404, "withdrawn")
	disable(false)
	check("enabled again", link, 200, "x")
	if err := s.identity.RemoveUser(t.Context(), ann.ID); err != nil {
		t.Fatal(err)
	}
	check("removed", link, 404, "withdrawn")
	check("of an issuer's", others, 200, "x")
	key, err := s.instance.Secret(linkKey)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := links.NewSigner(key, "http://"+listener.Addr().String(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	put := httptest.NewRecorder()
	routes[0].Handler.ServeHTTP(put, httptest.NewRequest("PUT", signer.Upload(ann.ID, "s1", "f", time.Hour), strings.NewReader("x")))
	if put.Code != 404 || !strings.Contains(put.Body.String(), "withdrawn") {
		t.Errorf("an upload: %d %s", put.Code, put.Body)
	}
}
