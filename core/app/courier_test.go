package app_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/boxwright/boxwright/core"
)

// TestCourierIsCalledEarly: its box is there when the installer has done its work, if there is room for both.
func TestCourierIsCalledEarly(t *testing.T) {
	for name, tt := range map[string]struct {
		most int64
		want int
	}{"room": {0, 1}, "no room": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := settings()
				s.MaxBoxes = tt.most
				w.install = func(context.Context) error {
					synctest.Wait()
					if n := len(w.madeFor(core.PurposeKeep)); n != tt.want {
						t.Errorf("%d couriers are there", n)
					}
					return nil
				}
				if _, err := w.service(t, s).RunOnce(t.Context(), asking("six"), nil); err != nil {
					t.Error(err)
				}
				if n := len(w.madeFor(core.PurposeKeep)); n != 1 {
					t.Errorf("%d couriers were sent", n)
				}
			})
		})
	}
}

// TestCourierThatIsNotNeeded goes again, and one that cannot be made early is made later.
func TestCourierThatIsNotNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.install = func(context.Context) error {
			synctest.Wait()
			return core.Errorf(core.ErrDependency, "no such package")
		}
		if _, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil); core.KindOf(err) != core.ErrDependency {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if boxes, _ := w.counts(); boxes != 0 || len(w.madeFor(core.PurposeKeep)) != 1 {
			t.Errorf("%d boxes are left", boxes)
		}
		w.install = func(context.Context) error {
			w.setFail("create keep", core.Errorf(core.ErrUnavailable, "not now"))
			synctest.Wait()
			w.setFail("create keep", nil)
			return nil
		}
		w.setFail("create keep", core.Errorf(core.ErrUnavailable, "not now"))
		if _, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func (w *world) setFail(step string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[step] = err
}

// TestCourierThatIsLost, however far it came: another one goes, and what the first left is remains.
func TestCourierThatIsLost(t *testing.T) {
	for name, left := range map[string]int{"before": 0, "after it has copied": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				lose := func(box string) {
					w.mu.Lock()
					defer w.mu.Unlock()
					delete(w.boxes, box)
				}
				w.install = func(context.Context) error {
					synctest.Wait()
					if name == "before" {
						lose(w.boxOf(core.PurposeKeep))
					}
					return nil
				}
				if name != "before" {
					first := sync.Once{}
					w.carried = func(box string) { first.Do(func() { lose(box) }) }
				}
				record, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil)
				if err != nil || record.Status != core.StatusOK || w.installs.Load() != 1 {
					t.Errorf("got %+v, %v, installed %d times", record, err, w.installs.Load())
				}
				environments, remains := w.indexed()
				if _, folders := w.zones(); len(environments) != 1 || len(remains) != 1 || len(folders) != 1+left {
					t.Errorf("the index has %+v and %+v, the zone %q", environments, remains, folders)
				}
				if n := len(w.madeFor(core.PurposeKeep)); n != 2 {
					t.Errorf("%d couriers", n)
				}
			})
		})
	}
}

// boxOf is the box of a purpose that there is.
func (w *world) boxOf(purpose core.Purpose) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, b := range w.boxes {
		if b.Labels.Purpose == purpose {
			return id
		}
	}
	return ""
}
