package app_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// TestExpel: sandboxes and runs of an owner end, those of others do not.
func TestExpel(t *testing.T) {
	w := newWorld()
	let := w.holding()
	s := w.service(t, sessionSettings())
	sandboxes, runs := map[string]string{}, map[string]string{}
	for _, owner := range []string{"ann", "bob"} {
		session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: owner}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := cell("x")
		r.Tenant, r.Background = owner, true
		within, err := s.RunInSession(t.Context(), session.ID, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := s.RunOnce(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		sandboxes[owner], runs[owner], runs[owner+" within"] = session.ID, alone.RunID, within.RunID
	}
	if owners, err := s.Owners(t.Context()); err != nil || !slices.Equal(owners, []string{"ann", "bob"}) {
		t.Errorf("owners are %q, %v", owners, err)
	}
	if err := s.Expel(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{runs["ann"], runs["ann within"]} {
		if record, err := s.GetRun(t.Context(), "ann", id, time.Minute); err != nil || record.Status != core.StatusCancelled {
			t.Errorf("the run ended as %+v, %v", record, err)
		}
	}
	if _, err := s.Session(t.Context(), "ann", sandboxes["ann"]); !errors.Is(err, core.ErrSessionExpired) {
		t.Errorf("the sandbox: %v", err)
	}
	await(t, func() bool { boxes, _ := w.counts(); return boxes == 2 })
	if owners, err := s.Owners(t.Context()); err != nil || !slices.Equal(owners, []string{"bob"}) {
		t.Errorf("owners are %q, %v", owners, err)
	}
	let()
	for _, id := range []string{runs["bob"], runs["bob within"]} {
		if record, err := s.GetRun(t.Context(), "bob", id, time.Minute); err != nil || record.Status != core.StatusOK {
			t.Errorf("the other's run ended as %+v, %v", record, err)
		}
	}
}
