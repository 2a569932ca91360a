package app_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

// TestBytecodeComesLater: a run does not wait for it. It is compiled where packages can do nothing but what any
// program can, and put into the environment by a courier.
func TestBytecodeComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		service := w.service(t, settings())
		if _, err := service.RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Fatal(err)
		}
		if n := len(w.madeFor(core.PurposeCompile)); n > 0 {
			t.Errorf("the run waited for %d compilers", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := service.RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		environments, remains := w.indexed()
		if len(environments) != 1 || !environments[0].Compiled || environments[0].Size != 200 || len(remains) > 0 {
			t.Errorf("the index has %+v and %+v", environments, remains)
		}
		compilers, couriers := w.madeFor(core.PurposeCompile), w.madeFor(core.PurposeKeep)
		if len(compilers) != 1 || len(couriers) != 2 {
			t.Fatalf("%d compilers and %d couriers", len(compilers), len(couriers))
		}
		private := compilers[0].Mounts[0]
		zone := core.Mount{Volume: environments[0].Zone, Path: core.GuestEnvironments}
		if compilers[0].Network != core.NetworkNone || !private.Writable || !slices.Equal(compilers[0].Mounts[1:], []core.Mount{zone}) {
			t.Errorf("the compiler's box is %+v", compilers[0])
		}
		zone.Writable, private.Writable = true, false
		if !slices.Equal(couriers[1].Mounts, []core.Mount{private, zone}) {
			t.Errorf("the courier's box has %+v", couriers[1].Mounts)
		}
		if n := w.trims.Load(); n != 1 {
			t.Errorf("the cache was looked at %d times", n)
		}
		if boxes, _ := w.counts(); boxes != 0 || len(w.volumesOf(core.PurposeEnvironment)) > 0 {
			t.Errorf("%d boxes and the volumes %q are left", boxes, w.volumesOf(core.PurposeEnvironment))
		}
	})
}

// volumesOf are the volumes of a purpose.
func (w *world) volumesOf(purpose core.Purpose) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, v := range w.volumes {
		if v.Labels.Purpose == purpose {
			names = append(names, name)
		}
	}
	return names
}

// TestBytecodeThatFails keeps nobody from the packages, and is tried again after a while only.
func TestBytecodeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fail["compile"] = core.Errorf(core.ErrUnavailable, "no room")
		service := w.service(t, settings())
		for _, want := range []int{1, 1, 2} {
			if _, err := service.RunOnce(t.Context(), asking("six"), nil); err != nil {
				t.Fatal(err)
			}
			w.pass(6 * time.Minute)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := len(w.madeFor(core.PurposeCompile)); n != want {
				t.Errorf("%d compilers, want %d", n, want)
			}
		}
		if environments, _ := w.indexed(); len(environments) != 1 || environments[0].Compiled || w.installs.Load() != 1 {
			t.Errorf("the index has %+v, installed %d times", environments, w.installs.Load())
		}
	})
}

// TestBytecodeThatDoesNotFit is not tried again: it never will.
func TestBytecodeThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fail["add"] = core.Errorf(core.ErrDependency, "the packages are not kept: they hold more than may be")
		service := w.service(t, settings())
		for range 3 {
			if _, err := service.RunOnce(t.Context(), asking("six"), nil); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Hour)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		environments, _ := w.indexed()
		if n := len(w.madeFor(core.PurposeCompile)); n != 1 || len(environments) != 1 || !environments[0].Compiled {
			t.Errorf("%d compilers, and the index has %+v", n, environments)
		}
	})
}

// TestBytecodeOfWhatIsGone is not taken for that of what was installed in its place meanwhile.
func TestBytecodeOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.carried = func(string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for key, e := range w.index { // which has none before the first courier has come back
				if !e.IsRemains() {
					e.Folder = "anew"
					w.index[key] = e
				}
			}
		}
		if _, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		environments, _ := w.indexed()
		if len(environments) != 1 || environments[0].Folder != "anew" || environments[0].Compiled || environments[0].Size != 100 {
			t.Errorf("the index has %+v", environments)
		}
	})
}

// TestNothingToCompile: there is nothing in an environment whose packages the image has already.
func TestNothingToCompile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fail["entries"] = errors.New("none")
		if _, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if environments, _ := w.indexed(); len(environments) != 1 || !environments[0].Compiled || len(w.madeFor(core.PurposeCompile)) > 0 {
			t.Errorf("%d compilers, and the index has %+v", len(w.madeFor(core.PurposeCompile)), environments)
		}
	})
}

// TestCacheWithoutABound: no box is made to look at it.
func TestCacheWithoutABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fail["trims"] = errors.New("no bound")
		if _, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.madeFor(core.PurposeInstall)); n != 1 || w.trims.Load() != 0 {
			t.Errorf("%d boxes had the cache, which was looked at %d times", n, w.trims.Load())
		}
	})
}
