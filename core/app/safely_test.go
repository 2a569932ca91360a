package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// TestAFaultEndsOneRun: a panic at any step is an error of the run that it happened in; the server goes on, and
// nothing is left.
func TestAFaultEndsOneRun(t *testing.T) {
	for _, step := range []string{"info", "image", "volume", "install", "create", "create install", "connect", "write", "run"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := w.service(t, settings())
				r := request("x")
				r.Dependencies, r.Files = []string{"six"}, []core.Input{{Name: "a", Content: []byte("b")}}
				w.breaks(step, errFault)
				if _, err := s.RunOnce(t.Context(), r, nil); core.KindOf(err) != core.ErrInternal {
					t.Errorf("the run's error is %v", err)
				}
				w.breaks(step, nil)
				synctest.Wait() // what the first has made is removed: in this world, what the next makes has the same name
				if record, err := s.RunOnce(t.Context(), r, nil); err != nil || record.Status != core.StatusOK {
					t.Errorf("the next run: %+v, %v", record, err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if boxes, _ := w.counts(); boxes != 0 {
					t.Errorf("%d boxes are left", boxes)
				}
			})
		})
	}
}

// A fault in what nobody waits for is seen by nobody.
func TestAFaultBehindARun(t *testing.T) {
	for name, breaks := range map[string]func(w *world, err error){
		"removal": func(w *world, err error) { w.breaks("destroy", err) },
		"sweep":   func(w *world, err error) { w.breaks("list", err) },
		"keeping the result": func(w *world, err error) {
			w.runs.refuses(func(core.Run) error {
				if err != nil {
					panic(err)
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := w.service(t, settings())
				go s.Sweep(t.Context())
				synctest.Wait()
				breaks(w, errFault)
				record, err := s.RunOnce(t.Context(), request("x"), nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				breaks(w, nil)
				time.Sleep(10 * time.Minute)
				if boxes, _ := w.counts(); boxes != 0 {
					t.Errorf("%d boxes are left", boxes)
				}
				if kept, err := w.runs.Get(t.Context(), "", record.RunID); err != nil || kept.State != core.RunEnded {
					t.Errorf("the store has %+v, %v", kept, err)
				}
			})
		})
	}
}

// A fault of one that everybody waits for is told to all.
func TestAFaultInTheSearch(t *testing.T) {
	w := newWorld()
	w.breaks("installed", errFault)
	backends := app.NewBackends([]app.Source{w.source("a"), w.source("b")}, app.Preference{Names: []string{"a", "b"}}, discard())
	s := w.serviceOf(t, settings(), backends)
	if _, err := s.RunOnce(t.Context(), request("x"), nil); core.KindOf(err) != core.ErrInternal {
		t.Errorf("got %v", err)
	}
	w.breaks("installed", nil)
	if _, err := s.RunOnce(t.Context(), request("x"), nil); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// TestAFaultOfAccounting loses no result: those who wait for the end of a run learn it.
func TestAFaultOfAccounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphaned(t)
		var faults atomic.Int64
		w.looking = func() {
			if strings.Contains(string(debug.Stack()), "(*spending).settle") {
				faults.Add(1)
				panic("settle")
			}
		}
		s, stop := w.sweeping(t)
		defer stop()
		synctest.Wait()
		record, err := s.GetRun(t.Context(), "local", "r1", time.Minute)
		if err != nil || record.Status != core.StatusOK || faults.Load() != 1 {
			t.Errorf("a run of before: %+v, %v, %d faults", record, err, faults.Load())
		}
		record, err = s.RunOnce(t.Context(), request("x"), nil)
		if err != nil || record.Status != core.StatusOK || faults.Load() != 2 {
			t.Errorf("got %+v, %v, %d faults", record, err, faults.Load())
		}
	})
}

// TestAFaultKeepsNoPlace: who comes next finds the place of a run that went wrong before it had a box.
func TestAFaultKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, limits := newWorld(), settings()
		limits.MaxConcurrent = 1
		s := w.service(t, limits)
		w.breaks("private", errFault)
		if _, err := s.RunOnce(t.Context(), request("x"), nil); core.KindOf(err) != core.ErrInternal {
			t.Errorf("got %v", err)
		}
		w.breaks("private", nil)
		if _, err := s.RunOnce(t.Context(), request("x"), nil); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

// TestNothingRunsUnguarded: whatever this package does in the background, it does through crew, or says here why
// that cannot panic.
func TestNothingRunsUnguarded(t *testing.T) {
	harmless := map[string]string{
		"removal.go":       "waits for a group",
		"flights.go":       "what it runs is guarded by who hands it in",
		"session_admin.go": "guarded in place", "sweep.go": "guarded in place", "backends.go": "guarded in place",
	}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "safely.go" || harmless[name] != "" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if starts(n) {
				t.Errorf("%s starts a goroutine whose panic would end the server", name)
			}
			return true
		})
	}
}

// starts reports whether a goroutine begins here.
func starts(n ast.Node) bool {
	if _, is := n.(*ast.GoStmt); is {
		return true
	}
	call, is := n.(*ast.CallExpr)
	if !is {
		return false
	}
	method, is := call.Fun.(*ast.SelectorExpr)
	return is && method.Sel.Name == "Go"
}
