package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// refused says what an answer to somebody over a quota has.
func refused(t *testing.T, err error, after time.Duration, texts ...string) {
	t.Helper()
	if core.KindOf(err) != core.ErrExhausted || core.RetryAfterOf(err) != after {
		t.Errorf("got %v, to try again in %v; want exhausted, %v", err, core.RetryAfterOf(err), after)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}

// TestSandboxesFillAQuota: who has as many as are allowed is told so at once, as waiting would not help.
func TestSandboxesFillAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), sessionSettings()
		s.Quota = app.Quota{Boxes: 2}
		s.Quotas = map[string]app.Quota{"rich": {Boxes: 3}, "By-Name": {Memory: s.Limits.MemoryBytes}}
		service := w.service(t, s)
		open := func(ctx context.Context, owner string) error {
			_, err := service.OpenSession(ctx, core.SessionRequest{Tenant: owner}, nil)
			return err
		}
		for range 2 {
			if err := open(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		refused(t, open(t.Context(), "ann"), 0, "your quota of boxes is full: 2 of 2 are used", "sandbox_stop")
		r := request("x")
		r.Tenant = "ann"
		_, err := service.RunOnce(t.Context(), r, nil)
		refused(t, err, 0, "your quota of boxes is full")
		for range 3 {
			if err := open(t.Context(), "rich"); err != nil {
				t.Error(err)
			}
		}
		named := core.WithPrincipal(t.Context(), core.Principal{ID: "u1", Name: "BY-name", IsUser: true})
		if err := open(named, "u1"); err != nil {
			t.Error(err)
		}
		token := core.WithPrincipal(t.Context(), core.Principal{ID: "issuer|1", Name: "By-Name"}) // as it says
		for range 2 {
			if err := open(token, "issuer|1"); err != nil {
				t.Error(err)
			}
		}
		refused(t, open(named, "u1"), 0, "your quota of memory is full: 2GiB of 2GiB are used")
		if time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// TestRunsFillAQuota: they end by themselves, so that one waits; and is told in the end which quota it was.
func TestRunsFillAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), settings()
		let := w.holding()
		s.Quota, s.MaxWait = app.Quota{Runs: 1}, 5*time.Second
		service := w.service(t, s)
		var first sync.WaitGroup
		first.Go(func() { _, _ = service.RunOnce(t.Context(), request("x"), nil) })
		synctest.Wait()
		_, err := service.RunOnce(t.Context(), request("y"), nil)
		refused(t, err, time.Second, "your quota of runs at once is full: 1 of 1 are used")
		other := request("z")
		other.Tenant = "another"
		first.Go(func() {
			if _, err := service.RunOnce(t.Context(), other, nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		let()
		first.Wait()
	})
}

// TestProcessorTime is never more than the quota, whatever runs at once, and all that was not used is given back.
func TestProcessorTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), settings()
		s.MaxConcurrent, s.QuotaWindow, s.Quota.CPU, s.Limits.CPUs = 100, time.Hour, 20*time.Second, 0.5
		var running, most atomic.Int64
		w.run = func(ctx context.Context, _ core.RunSpec) (core.Exit, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Second)
			w.pass(2 * time.Second) // of a processor of which it has the half
			return core.Exit{}, nil
		}
		service := w.service(t, s)
		ten := 10 * time.Second // five seconds of a processor
		do := func() error {
			r := request("x")
			r.Timeout = &ten
			_, err := service.RunOnce(t.Context(), r, nil)
			return err
		}
		var all sync.WaitGroup
		var ran atomic.Int64
		for range 50 {
			all.Go(func() {
				if err := do(); err == nil {
					ran.Add(1)
				} else {
					refused(t, err, 5*time.Second, "your quota of processor time, in seconds, is full: 20 of 20 are used or set aside")
				}
			})
		}
		all.Wait()
		if ran.Load() != 4 || most.Load() != 4 {
			t.Errorf("%d ran, %d at once; want 4", ran.Load(), most.Load())
		}
	})
}

// spend has a run that takes so long of a whole processor.
func (w *world) spend(t *testing.T, service *app.Service, timeout, took time.Duration) error {
	t.Helper()
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		w.pass(took)
		return core.Exit{}, nil
	}
	r := request("x")
	r.Timeout = &timeout
	_, err := service.RunOnce(t.Context(), r, nil)
	return err
}

func cpuSettings() app.Settings {
	s := settings()
	s.QuotaWindow, s.Quota.CPU, s.Limits.CPUs = time.Hour, 20*time.Second, 1
	return s
}

// TestProcessorTimeComesBack with the next window, also when the server is another one by then.
func TestProcessorTimeComesBack(t *testing.T) {
	w := newWorld()
	w.now = time.Date(2026, 1, 2, 3, 10, 0, 0, time.UTC)
	service := w.service(t, cpuSettings())
	if err := w.spend(t, service, 18*time.Second, 15*time.Second); err != nil {
		t.Fatal(err)
	}
	refused(t, w.spend(t, service, 6*time.Second, 0), 49*time.Minute+45*time.Second, "15 of 20 are used", "may need 6")
	_ = service.Close(t.Context())
	again := w.service(t, cpuSettings())
	refused(t, w.spend(t, again, 6*time.Second, 0), 49*time.Minute+45*time.Second, "15 of 20 are used")
	if err := w.spend(t, again, 5*time.Second, time.Second); err != nil {
		t.Error(err)
	}
	w.pass(50 * time.Minute)
	if err := w.spend(t, again, 20*time.Second, time.Second); err != nil {
		t.Errorf("in the next window: %v", err)
	}
}

// TestUseThatCannotBeKept counts all the same, and is kept later.
func TestUseThatCannotBeKept(t *testing.T) {
	w := newWorld()
	service := w.service(t, cpuSettings())
	if err := w.spend(t, service, time.Second, time.Second); err != nil { // the store has answered once
		t.Fatal(err)
	}
	w.usage.fail = core.Errorf(core.ErrUnavailable, "the disk is away")
	if err := w.spend(t, service, 15*time.Second, 14*time.Second); err != nil {
		t.Fatal(err)
	}
	refused(t, w.spend(t, service, 6*time.Second, 0), core.RetryAfterOf(w.spend(t, service, 6*time.Second, 0)), "15 of 20 are used")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	service.Sweep(ctx) // it tries, and fails
	w.usage.fail = nil
	_ = service.Close(t.Context())
	meters, err := w.service(t, cpuSettings()).Usage(t.Context(), "local")
	if err != nil || meters[3].Used != 15 {
		t.Errorf("kept was %+v, %v", meters, err)
	}
}

// TestProcessorTimeOfAnotherTry: a program that runs again is as two.
func TestProcessorTimeOfAnotherTry(t *testing.T) {
	for quota, tries := range map[time.Duration]int{20 * time.Second: 2, 19 * time.Second: 1} {
		w, s := newWorld(), cpuSettings()
		s.Quota.CPU, s.AutoInstall = quota, true
		ran := 0
		w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
			w.pass(11 * time.Second) // a moment longer than it may
			if ran++; ran == 2 {
				return core.Exit{}, nil
			}
			text := "Traceback (most recent call last):\nModuleNotFoundError: No module named 'yaml'\n"
			return core.Exit{Code: 1, Stderr: core.Output{Head: []byte(text), Total: int64(len(text))}}, nil
		}
		service := w.service(t, s)
		r, ten := request("import yaml"), 10*time.Second
		r.Timeout, r.AutoInstall = &ten, true
		record, err := service.RunOnce(t.Context(), r, nil)
		if err != nil || ran != tries || strings.Contains(strings.Join(record.Warnings, ""), "it was not run again with pyyaml: your quota") != (tries == 1) {
			t.Errorf("with %v it ran %d times: %+v, %v", quota, ran, record, err)
		}
		if meters, err := service.Usage(t.Context(), "local"); err != nil || meters[3].Used != int64(10*tries) {
			t.Errorf("with %v the use is %+v, %v", quota, meters, err)
		}
	}
}

// leaving has each run leave a file of so many bytes.
func (w *world) leaving(size int) {
	w.contents["f.bin"] = strings.Repeat("x", size)
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		return core.Exit{Files: []core.FileInfo{{Path: "f.bin", Size: int64(size)}}}, nil
	}
}

// TestKeptFilesFillAQuota: what does not fit is left behind, and said; files that are gone make room.
func TestKeptFilesFillAQuota(t *testing.T) {
	w, s := newWorld(), settings()
	s.Quota.Files, s.KeepFiles, s.MaxConcurrent = 1000, time.Hour, 100
	w.leaving(300)
	service := w.service(t, s)
	var all sync.WaitGroup
	var kept, left atomic.Int64
	for range 20 {
		all.Go(func() {
			record, err := service.RunOnce(t.Context(), request("x"), nil)
			switch {
			case err != nil:
				t.Error(err)
			case len(record.Files) == 1:
				kept.Add(1)
			case strings.Contains(strings.Join(record.Warnings, ""), "your quota of kept files is full: 900B of 1000B are used, 300B more do not fit"):
				left.Add(1)
			default:
				t.Errorf("warnings are %q", record.Warnings)
			}
		})
	}
	all.Wait()
	if kept.Load() != 3 || left.Load() != 17 {
		t.Errorf("%d were kept and %d left, want 3 and 17", kept.Load(), left.Load())
	}
	w.mu.Lock()
	clear(w.files) // somebody swept them
	w.mu.Unlock()
	w.pass(10 * time.Minute)
	if record, err := service.RunOnce(t.Context(), request("x"), nil); err != nil || len(record.Files) != 1 {
		t.Errorf("with room again: %+v, %v", record, err)
	}
	meters, err := service.Usage(t.Context(), "local")
	if err != nil || meters[4].Used != 300 || meters[4].Limit != 1000 || !meters[4].Free.Equal(w.time().Add(time.Hour)) {
		t.Errorf("the use is %+v, %v", meters, err)
	}
}

// TestFilesThatCannotBeKept take nothing.
func TestFilesThatCannotBeKept(t *testing.T) {
	w, s := newWorld(), settings()
	s.Quota.Files = 1000
	w.leaving(300)
	w.fail["keep"] = errors.New("no")
	service := w.service(t, s)
	if _, err := service.RunOnce(t.Context(), request("x"), nil); err != nil {
		t.Fatal(err)
	}
	if meters, err := service.Usage(t.Context(), "local"); err != nil || meters[4].Used != 0 {
		t.Errorf("the use is %+v, %v", meters, err)
	}
}

// TestCallsInAMinute: exactly so many in any minute, whoever calls at once.
func TestCallsInAMinute(t *testing.T) {
	w, s := newWorld(), sessionSettings()
	s.Quota.Calls = 10
	tenants := app.NewTenants(w.service(t, s), nil, core.AuditCodeHash)
	call := func(owner string) error { _, err := tenants.Sessions(t.Context(), owner); return err }
	for range 4 {
		if err := call("ann"); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(20 * time.Second)
	var all sync.WaitGroup
	var let atomic.Int64
	for range 30 {
		all.Go(func() {
			if call("ann") == nil {
				let.Add(1)
			}
		})
	}
	all.Wait()
	if let.Load() != 6 {
		t.Errorf("%d more were let in, want 6", let.Load())
	}
	refused(t, call("ann"), 40*time.Second, "your quota of calls in a minute is full: 10 of 10 are used", "in 40 seconds")
	if err := call("bob"); err != nil {
		t.Error(err)
	}
	w.pass(40 * time.Second)
	for i := range 4 {
		if err := call("ann"); err != nil {
			t.Errorf("call %d of the next minute: %v", i, err)
		}
	}
	refused(t, call("ann"), 20*time.Second)
	meters, err := tenants.Usage(t.Context(), "ann")
	if want := (core.Meter{Quota: core.QuotaCalls, Used: 10, Limit: 10, Free: w.time().Add(20 * time.Second)}); err != nil || meters[5] != want {
		t.Errorf("the use is %+v, %v", meters, err)
	}
}

// TestUsage tells each owner what it has, and nobody else's.
func TestUsage(t *testing.T) {
	w, s := newWorld(), sessionSettings()
	s.Quota = app.Quota{Boxes: 5, Runs: 6, Memory: 7 << 30, CPU: 90 * time.Second, Files: 8, Calls: 9}
	tenants := app.NewTenants(w.service(t, s), nil, core.AuditCodeHash)
	if _, err := tenants.OpenSession(t.Context(), core.SessionRequest{Tenant: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[string]string{
		"ann": "boxes 1/5, runs 0/6, memory 2147483648/7516192768, cpu_seconds 0/90, files 0/8, calls 1/9",
		"bob": "boxes 0/5, runs 0/6, memory 0/7516192768, cpu_seconds 0/90, files 0/8, calls 0/9",
	} {
		meters, err := tenants.Usage(t.Context(), owner)
		var got []string
		for _, m := range meters {
			got = append(got, fmt.Sprintf("%s %d/%d", m.Quota, m.Used, m.Limit))
		}
		if text := strings.Join(got, ", "); err != nil || text != want {
			t.Errorf("%s uses %s, %v; want %s", owner, text, err, want)
		}
	}
}

// What the server does by itself is nobody's, and fills nobody's quota.
func TestTheServerHasNoQuota(t *testing.T) {
	w, s := newWorld(), settings()
	s.Quota.Memory = 1
	service := w.service(t, s)
	if _, err := service.WarmEnvironment(t.Context(), core.EnvironmentSet{Packages: []string{"six"}}, nothing); err != nil {
		t.Errorf("for nobody: %v", err)
	}
	_, err := service.WarmEnvironment(t.Context(), set("attrs"), nothing)
	refused(t, err, 0)
}
