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
		w.ticking = func() {
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

// TestNothingRunsUnguarded: whatever this package does in the background, it does through crew, or says here how often
// a file does otherwise, and why that cannot panic.
func TestNothingRunsUnguarded(t *testing.T) {
	type exemption struct {
		starts int
		why    string
	}
	const inPlace, ends = "guarded in place", "it only ends a ctx"
	harmless := map[string]exemption{
		"safely.go":        {1, inPlace},
		"session_admin.go": {1, inPlace}, "sweep.go": {1, inPlace}, "backends.go": {1, inPlace},
		"flights.go": {1, "what it runs is guarded by who hands it in"},
		"boxes.go":   {2, ends}, "collect.go": {2, ends}, "run.go": {1, ends}, "service.go": {1, ends},
	}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := starts(file); n != harmless[name].starts {
			t.Errorf("%s starts %d goroutines whose panic would end the server, and %d are exempted", name, n, harmless[name].starts)
		}
	}
}

// starts counts where goroutines begin.
func starts(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			n++
		case *ast.CallExpr:
			if method, is := node.Fun.(*ast.SelectorExpr); is && (method.Sel.Name == "Go" || method.Sel.Name == "AfterFunc") {
				n++
			}
		}
		return true
	})
	return n
}

// TestWhatStarts is seen in each form.
func TestWhatStarts(t *testing.T) {
	for code, want := range map[string]int{
		"go f()": 1, "w.Go(f)": 1, "time.AfterFunc(1, f)": 1, "defer context.AfterFunc(ctx, func() { time.AfterFunc(1, f) })()": 2, "w.do(f)": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc _() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := starts(file); n != want {
			t.Errorf("%s: %d", code, n)
		}
	}
}
