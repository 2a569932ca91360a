package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

func (w *world) tenants(t *testing.T, s app.Settings, code core.AuditCode) *app.Tenants {
	t.Helper()
	return app.NewTenants(w.service(t, s), w.usage, code)
}

func as(ctx context.Context, id string) context.Context {
	return core.WithPrincipal(ctx, core.Principal{ID: id, Credential: "key-of-" + id})
}

// TestKeptFilesAreTheirOwners, also once the run is forgotten; somebody else's are as none.
func TestKeptFilesAreTheirOwners(t *testing.T) {
	w, s := newWorld(), sessionSettings()
	s.Tenant = "local"
	w.leaving(3)
	tenants := w.tenants(t, s, core.AuditCodeHash)
	r := request("x")
	r.Tenant = "ann"
	record, err := tenants.RunOnce(t.Context(), r, nil)
	if err != nil || len(record.Files) != 1 {
		t.Fatalf("%+v, %v", record, err)
	}
	look := func(owner, run, name string) error {
		file, kept, err := tenants.OpenFile(t.Context(), owner, run, name)
		if err != nil {
			return err
		}
		if text, err := io.ReadAll(file); string(text) != "xxx" || kept.Run != run {
			t.Errorf("%s reads %q of %+v, %v", owner, text, kept, err)
		}
		return file.Close()
	}
	check := func() {
		t.Helper()
		if err := look("ann", record.RunID, "f.bin"); err != nil {
			t.Error(err)
		}
		missing := look("ann", record.RunID, "g.bin")
		for _, owner := range []string{"bob", "local"} {
			foreign := look(owner, record.RunID, "g.bin")
			if err := look(owner, record.RunID, "f.bin"); core.KindOf(err) != core.ErrNotFound {
				t.Errorf("%s got %v", owner, err)
			}
			if foreign.Error() != missing.Error() {
				t.Errorf("%q tells more than %q", foreign, missing)
			}
		}
	}
	check()
	w.runs.forget(record.RunID)
	check()
	w.mu.Lock()
	w.files["id-of-old/f.bin"] = []byte("xxx") // of a run that nobody knows
	w.mu.Unlock()
	if err := look("local", "id-of-old", "f.bin"); err != nil {
		t.Error(err)
	}
	if err := look("bob", "id-of-old", "f.bin"); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("bob got %v", err)
	}
	if err := look("ann", "../x", "f.bin"); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("got %v", err)
	}
	w.usage.fail = core.Errorf(core.ErrUnavailable, "the disk is away")
	if err := look("ann", record.RunID, "f.bin"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("who cannot be told apart got %v", err)
	}
}

// TestAudit keeps one record of each thing that was done, and what it was done with.
func TestAudit(t *testing.T) {
	w := newWorld()
	w.contents["a.txt"] = "x"
	tenants := w.tenants(t, sessionSettings(), core.AuditCodeHash)
	ctx := as(t.Context(), "ann")
	r := cell("print(1)")
	r.Tenant = "ann"
	once, _ := tenants.RunOnce(ctx, r, nil)
	made, _ := tenants.OpenSession(ctx, core.SessionRequest{Tenant: "ann", Name: "work"}, nil)
	within, _ := tenants.RunInSession(ctx, "work", r, nil)
	at := core.FileRequest{Tenant: "ann", Sandbox: "work", Path: "a.txt"}
	_, _ = tenants.ReadFile(ctx, at, 0, 9, false)
	_, _ = tenants.DeleteFile(ctx, at)
	_, _ = tenants.DeleteFile(ctx, at)
	_, _ = tenants.WriteFile(ctx, core.FileRequest{Tenant: "ann", Sandbox: "work", Path: "token=abc"}, nil, nil)
	_, _, _ = tenants.OpenFile(ctx, "ann", once.RunID, "none")
	_, _ = tenants.CancelRun(ctx, "ann", once.RunID)
	_, _ = tenants.Runs(ctx, "ann", time.Time{}, 9) // to look is not to do
	_ = tenants.StopSession(ctx, "ann", "work")
	_ = tenants.StopSession(ctx, "ann", "work")
	code := "sha256:d287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99"
	want := []string{
		"run " + once.RunID + " ok CODE", "session.open " + made.ID + " ok", "run " + within.RunID + " in " + made.ID + " ok CODE",
		"file.read " + made.ID + ":a.txt ok", "file.delete " + made.ID + ":a.txt ok", "file.delete work:a.txt not_found",
		"file.write " + made.ID + ":token=[secret] ok", "file.open " + once.RunID + "/none not_found", "run.cancel " + once.RunID + " ok",
		"session.stop work ok", "session.stop work not_found",
	}
	var got []string
	for _, r := range w.usage.records {
		if r.Principal != "ann" || r.Credential != "key-of-ann" || !r.At.Equal(w.time()) || (r.Action == "run" || r.Action == "session.open") != (r.Where == "fake") {
			t.Errorf("a record is %+v", r)
		}
		line := r.Action + " " + r.Target + " " + r.Outcome
		if r.Code == code {
			line += " CODE"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log is\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAuditOfCode(t *testing.T) {
	for code, want := range map[core.AuditCode]string{
		core.AuditCodeHash: "sha256:3c3708f470fc95b0fd1297940419e24e330fdbb46e69969fa5cf5539ee9c121c",
		core.AuditCodeFull: "password = [secret]",
		core.AuditCodeNone: "",
	} {
		w := newWorld()
		tenants := w.tenants(t, settings(), code)
		if _, err := tenants.RunOnce(t.Context(), request(`password = "hunter2"`), nil); err != nil {
			t.Fatal(err)
		}
		if got := w.usage.records[0].Code; got != want {
			t.Errorf("%s: the log has %q", code, got)
		}
	}
}

// TestAuditIsBounded: what clients choose fills it no more than it may.
func TestAuditIsBounded(t *testing.T) {
	w, s := newWorld(), settings()
	s.MaxCode = 9
	tenants := w.tenants(t, s, core.AuditCodeFull)
	name := strings.Repeat("x", 511) + "é"
	if err := tenants.StopSession(t.Context(), "ann", name); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := tenants.RunOnce(t.Context(), request("print(1) # long"), nil); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("got %v", err)
	}
	if got := w.usage.records; len(got) != 2 || got[0].Target != name[:511] || got[1].Code != "print(1) " {
		t.Errorf("the log has %+v", got)
	}
}

// TestAuditThatCannotBeKept does not take away what was done.
func TestAuditThatCannotBeKept(t *testing.T) {
	w := newWorld()
	tenants := w.tenants(t, settings(), core.AuditCodeHash)
	w.usage.fail = errors.New("the disk is full")
	if record, err := tenants.RunOnce(t.Context(), request("x"), nil); err != nil || record.Status != core.StatusOK {
		t.Errorf("got %+v, %v", record, err)
	}
}

// TestOneForAnother: a fault of ours that takes one principal for another does nothing.
func TestOneForAnother(t *testing.T) {
	w := newWorld()
	tenants := w.tenants(t, sessionSettings(), core.AuditCodeHash)
	if _, err := tenants.Sessions(as(t.Context(), "ann"), "bob"); core.KindOf(err) != core.ErrInternal {
		t.Errorf("got %v", err)
	}
	if _, err := tenants.RunOnce(as(t.Context(), "ann"), request("x"), nil); core.KindOf(err) != core.ErrInternal || len(w.specs) != 0 {
		t.Errorf("got %v, %d boxes", err, len(w.specs))
	}
}

// stranger is one of two principals that call at random.
type stranger struct {
	*app.Tenants
	t    *testing.T
	id   string
	ctx  context.Context //nolint:containedctx // it lives as long as the test
	dice *rand.Rand

	mu       *sync.Mutex
	runs     map[string][]string // that each principal made
	sessions map[string][]string
}

func (s *stranger) other() string {
	if s.id == "ann" {
		return "bob"
	}
	return "ann"
}

// foreign is something of the other's, or "".
func (s *stranger) foreign(all map[string][]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := all[s.other()]
	if len(list) == 0 {
		return ""
	}
	return list[s.dice.IntN(len(list))]
}

func (s *stranger) own(all map[string][]string, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all[s.id] = append(all[s.id], id)
}

func (s *stranger) isOwn(all map[string][]string, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.Contains(all[s.other()], id)
}

// request is a program that prints whose it is.
func (s *stranger) request() core.Request {
	return core.Request{Code: "of " + s.id, Tenant: s.id, Client: "one connection"}
}

func (s *stranger) check(record core.Record, err error) {
	if err != nil {
		mayBe := []core.Kind{core.ErrNotFound, core.ErrSessionExpired, core.ErrCancelled} // it stops its own at any time
		if !slices.Contains(mayBe, core.KindOf(err)) {
			s.t.Errorf("%s: %v", s.id, err)
		}
		return
	}
	if string(record.Stdout.Head) != "of "+s.id || !s.isOwn(s.sessions, record.Session) || !s.isOwn(s.runs, record.RunID) {
		s.t.Errorf("%s got %+v", s.id, record)
	}
	s.own(s.runs, record.RunID)
	if record.Session != "" {
		s.own(s.sessions, record.Session)
	}
}

// make does something of its own.
func (s *stranger) make() {
	switch s.dice.IntN(6) {
	case 0:
		s.check(s.RunOnce(s.ctx, s.request(), nil))
	case 1:
		s.check(s.RunInSession(s.ctx, "", s.request(), nil))
	case 2:
		s.check(s.RunInSession(s.ctx, "work", s.request(), nil)) // both call theirs so
	case 3:
		made, err := s.OpenSession(s.ctx, core.SessionRequest{Tenant: s.id, Name: "work"}, nil)
		if err == nil {
			s.own(s.sessions, made.ID)
		} else if core.KindOf(err) != core.ErrInvalid {
			s.t.Errorf("%s: %v", s.id, err)
		}
	case 4:
		_ = s.StopSession(s.ctx, s.id, "work")
	case 5:
		s.list()
	}
}

// list looks at all that it is told of.
func (s *stranger) list() {
	sessions, err := s.Sessions(s.ctx, s.id)
	for _, session := range sessions {
		if session.Owner != s.id || !s.isOwn(s.sessions, session.ID) {
			s.t.Errorf("%s is told of %+v", s.id, session)
		}
	}
	runs, err2 := s.Runs(s.ctx, s.id, time.Time{}, 1000)
	for _, run := range runs {
		if run.Owner != s.id || !s.isOwn(s.runs, run.ID) || run.Summary != "of "+s.id {
			s.t.Errorf("%s is told of %+v", s.id, run)
		}
	}
	meters, err3 := s.Usage(s.ctx, s.id)
	if err := errors.Join(err, err2, err3); err != nil || len(meters) != 6 {
		s.t.Errorf("%s: %v", s.id, err)
	}
}

// pry tries everything with what is the other's.
func (s *stranger) pry() {
	run, session := s.foreign(s.runs), s.foreign(s.sessions)
	at := core.FileRequest{Tenant: s.id, Client: "one connection", Sandbox: session, Path: "f.bin"}
	tries := []func() error{
		func() error { _, err := s.GetRun(s.ctx, s.id, run, 0); return err },
		func() error { _, err := s.ReadOutput(s.ctx, s.id, run, core.Stdout, 0, 9); return err },
		func() error { _, err := s.CancelRun(s.ctx, s.id, run); return err },
		func() error { _, err := s.WriteStdin(s.ctx, s.id, run, []byte("x"), true); return err },
		func() error { _, _, err := s.OpenFile(s.ctx, s.id, run, "f.bin"); return err },
	}
	if session != "" { // "" would be its own
		tries = append(tries, []func() error{
			func() error { _, err := s.RunInSession(s.ctx, session, s.request(), nil); return err },
			func() error { _, err := s.Inspect(s.ctx, s.id, session); return err },
			func() error { _, err := s.Session(s.ctx, s.id, session); return err },
			func() error { return s.StopSession(s.ctx, s.id, session) },
			func() error { _, err := s.ListFiles(s.ctx, at, true); return err },
			func() error { _, err := s.ReadFile(s.ctx, at, 0, 9, false); return err },
			func() error { _, err := s.WriteFile(s.ctx, at, []byte("x"), nil); return err },
			func() error { _, err := s.DeleteFile(s.ctx, at); return err },
			func() error { _, err := s.BeginInstall(s.ctx, s.id, session, []string{"six"}, 0); return err },
			func() error { _, err := s.InstallStatus(s.ctx, s.id, session, "six"); return err },
		}...)
	}
	n := s.dice.IntN(len(tries))
	if err := tries[n](); core.KindOf(err) != core.ErrNotFound && (run != "" || n != 4) {
		s.t.Errorf("%s, try %d with run %q and sandbox %q: got %v", s.id, n, run, session, err)
	}
}

// TestTwoPrincipalsNeverMeet: whatever two do at once, neither sees, uses or ends anything of the other's.
func TestTwoPrincipalsNeverMeet(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), sessionSettings()
			s.MaxConcurrent, s.MaxQueued = 100, 1000
			w.contents["f.bin"] = "x"
			w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
				out := core.Output{Head: spec.Code, Total: int64(len(spec.Code))}
				return core.Exit{Stdout: out, Files: []core.FileInfo{{Path: "f.bin", Size: 1}}}, nil
			}
			tenants := w.tenants(t, s, core.AuditCodeHash)
			runs, sessions, mu := map[string][]string{}, map[string][]string{}, &sync.Mutex{}
			var all sync.WaitGroup
			for n := range uint64(6) {
				id := []string{"ann", "bob"}[n%2]
				one := &stranger{
					Tenants: tenants, t: t, id: id, ctx: as(t.Context(), id), dice: rand.New(rand.NewPCG(seed, n)),
					mu: mu, runs: runs, sessions: sessions,
				}
				all.Go(func() {
					for range 150 {
						if one.dice.IntN(2) == 0 {
							one.make()
						} else {
							one.pry()
						}
					}
				})
			}
			all.Wait()
			w.checkOwners(t)
			if len(runs["ann"]) < 20 || len(runs["bob"]) < 20 {
				t.Errorf("too little was done: %d and %d runs", len(runs["ann"]), len(runs["bob"]))
			}
		})
	}
}

// checkOwners looks at what was kept: whose each box was, and what the audit log says.
func (w *world) checkOwners(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, spec := range w.specs {
		if spec.Labels.Tenant != "ann" && spec.Labels.Tenant != "bob" {
			t.Errorf("a box is of %+v", spec.Labels)
		}
	}
	for _, r := range w.usage.records {
		if r.Credential != "key-of-"+r.Principal {
			t.Errorf("a record is %+v", r)
		}
	}
	for _, h := range w.usage.holdings {
		if h.Owner != "ann" && h.Owner != "bob" {
			t.Errorf("files are of %+v", h)
		}
	}
}
