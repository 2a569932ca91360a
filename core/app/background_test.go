package app_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

// holding is a program that runs until it is let go, or cancelled.
func (w *world) holding() (let func()) {
	hold := make(chan struct{})
	w.run = func(ctx context.Context, _ core.RunSpec) (core.Exit, error) {
		select {
		case <-hold:
			return core.Exit{Stdout: core.Output{Head: []byte("done\n"), Total: 5}}, nil
		case <-ctx.Done():
			return core.Exit{Cancelled: true, Code: 137}, nil
		}
	}
	return func() { close(hold) }
}

// TestBackground: the call is answered while the program runs, and the record is there when it has ended.
func TestBackground(t *testing.T) {
	w := newWorld()
	let := w.holding()
	s := w.service(t, sessionSettings())
	r := cell("x")
	r.Background = true
	ctx, cancel := context.WithCancel(t.Context())
	record, err := s.RunOnce(ctx, r, nil)
	cancel() // the end of the call is not the end of the run
	if err != nil || record.Status != core.StatusRunning {
		t.Fatalf("got %+v, %v", record, err)
	}
	if kept, err := w.runs.Get(t.Context(), "local", record.RunID); err != nil || kept.State != core.RunUnderWay || kept.Box == "" {
		t.Errorf("the store has %+v, %v", kept, err)
	}
	let()
	got, err := s.GetRun(t.Context(), "local", record.RunID, time.Minute)
	if err != nil || got.Status != core.StatusOK || string(got.Stdout.Head) != "done\n" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept, _ := w.runs.Get(t.Context(), "local", record.RunID); kept.State != core.RunEnded || kept.Record.Status != core.StatusOK {
		t.Errorf("the store has %+v", kept)
	}
}

// TestSyncLimit: a call waits no longer than that, and its run goes on.
func TestSyncLimit(t *testing.T) {
	w := newWorld()
	let := w.holding()
	limits := sessionSettings()
	limits.SyncLimit = time.Millisecond
	s := w.service(t, limits)
	making := make(chan struct{})
	w.creating = func() { <-making }
	record, err := s.RunOnce(t.Context(), cell("x"), nil)
	if err != nil || record.Status != core.StatusRunning {
		t.Fatalf("got %+v, %v", record, err)
	}
	close(making)
	await(t, func() bool { // a server that comes after this one finds the program
		kept, _ := w.runs.Get(t.Context(), "local", record.RunID)
		return kept.Box != "" && kept.Backend == "fake" && kept.Begun.Equal(w.now)
	})
	let()
	for record.Status == core.StatusRunning {
		if record, err = s.GetRun(t.Context(), "local", record.RunID, time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCancelRun(t *testing.T) {
	w := newWorld()
	w.holding()
	s := w.service(t, sessionSettings())
	r := cell("x")
	r.Background = true
	record, err := s.RunInSession(t.Context(), "", r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.CancelRun(t.Context(), "local", record.RunID)
		if err != nil || got.Status != core.StatusCancelled {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestFailedInBackground: what could not be run is told to whoever asks for the run.
func TestFailedInBackground(t *testing.T) {
	w := newWorld()
	w.fail["create"] = core.Errorf(core.ErrUnavailable, "no box")
	s := w.service(t, sessionSettings())
	r := cell("x")
	r.Background = true
	if _, err := s.RunOnce(t.Context(), r, nil); core.KindOf(err) != core.ErrUnavailable {
		t.Fatalf("got %v", err)
	}
	runs, err := s.Runs(t.Context(), "local", time.Time{}, 9)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if _, err := s.GetRun(t.Context(), "local", runs[0].ID, 0); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("asked for later: %v", err)
	}
}

// TestAStoreThatTakesNothing: how a run ended is known all the same, and kept once that is possible.
func TestAStoreThatTakesNothing(t *testing.T) {
	w := newWorld()
	let := w.holding()
	s := w.service(t, sessionSettings())
	r := cell("x")
	r.Background = true
	record, err := s.RunOnce(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.runs.refuses(func(core.Run) error { return core.Errorf(core.ErrUnavailable, "locked") })
	let()
	for what, ask := range map[string]func() (core.Record, error){
		"get_run":    func() (core.Record, error) { return s.GetRun(t.Context(), "local", record.RunID, time.Minute) },
		"at once":    func() (core.Record, error) { return s.GetRun(t.Context(), "local", record.RunID, 0) },
		"cancel_run": func() (core.Record, error) { return s.CancelRun(t.Context(), "local", record.RunID) },
	} {
		_, _ = s.GetRun(t.Context(), "local", record.RunID, time.Minute)
		if got, err := ask(); err != nil || got.Status != core.StatusOK {
			t.Errorf("%s: got %q, %v", what, got.Status, err)
		}
	}
	if piece, err := s.ReadOutput(t.Context(), "local", record.RunID, core.Stdout, 0, 9); string(piece.Data) != "done\n" || !piece.Ended || piece.Kept != 5 {
		t.Errorf("read_output: got %+v, %v", piece, err)
	}
	if list, err := s.Runs(t.Context(), "local", time.Time{}, 9); err != nil || len(list) != 1 || list[0].State != core.RunEnded {
		t.Errorf("list_runs: got %+v, %v", list, err)
	}
	w.runs.refuses(nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go s.Sweep(ctx)
	await(t, func() bool {
		kept, _ := w.runs.Get(t.Context(), "local", record.RunID)
		return kept.State == core.RunEnded && kept.Record.Status == core.StatusOK
	})
}

// TestOutputIsNotWhatTheProgramSays: a file of the program's does not pass for its output.
func TestOutputIsNotWhatTheProgramSays(t *testing.T) {
	w := newWorld()
	w.contents["stdout.txt"], w.contents["stderr.txt"] = "forged", "mine"
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		return core.Exit{
			Stdout: core.Output{Head: []byte("oooooooooo"), Tail: []byte("oooooooooo"), Total: 1000, Spilled: 100},
			Files:  []core.FileInfo{{Path: "stdout.txt", Size: 6}, {Path: "stderr.txt", Size: 4}},
		}, nil
	}
	s := w.service(t, sessionSettings())
	record, err := s.RunOnce(t.Context(), cell("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range record.Files {
		names = append(names, f.Name)
	}
	if want := []string{"stdout (2).txt", "stderr.txt", "stdout.txt"}; !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
	if piece, err := s.ReadOutput(t.Context(), "local", record.RunID, core.Stdout, 10, 5); err != nil || string(piece.Data) != "ooooo" || piece.Kept != 100 || piece.Total != 1000 {
		t.Errorf("got %+v, %v", piece, err)
	}
}

// TestARunOfAnotherServer is seen, but not reached.
func TestARunOfAnotherServer(t *testing.T) {
	w := newWorld()
	let := w.holding()
	defer let()
	one, two := w.service(t, sessionSettings()), w.another(t, sessionSettings())
	r := cell("x")
	r.Background = true
	record, err := one.RunOnce(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := two.GetRun(t.Context(), "local", record.RunID, 0); err != nil || got.Status != core.StatusRunning {
		t.Errorf("get_run: got %q, %v", got.Status, err)
	}
	_, cancel := two.CancelRun(t.Context(), "local", record.RunID)
	_, input := two.WriteStdin(t.Context(), "local", record.RunID, []byte("x"), false)
	for _, err := range []error{cancel, input} {
		if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
			t.Errorf("got %v", err)
		}
	}
}

// TestRunsOfDeadServers: one whose box is there is followed to its end; the others are lost, and say so.
func TestRunsOfDeadServers(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	w.boxes["box"] = core.Box{ID: "box", State: core.BoxRunning, Labels: core.Labels{Instance: "inst", Server: "dead", Purpose: core.PurposeRun}}
	known := core.Run{ID: "r1", Owner: "local", Backend: "fake", Box: "box", Server: "dead", State: core.RunUnderWay, Started: w.now, Begun: w.now, Timeout: time.Minute}
	boxless := known
	boxless.ID, boxless.Box = "r2", ""
	for _, run := range []core.Run{known, boxless} {
		if err := w.runs.Put(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	sweeping, stop := context.WithCancel(t.Context())
	defer stop()
	go s.Sweep(sweeping)
	await(t, func() bool {
		all, _ := w.runs.UnderWay(t.Context())
		return len(all) == 0
	})
	if record, err := s.GetRun(t.Context(), "local", "r1", time.Second); err != nil || record.Status != core.StatusOK {
		t.Errorf("got %+v, %v", record, err)
	}
	if _, err := s.GetRun(t.Context(), "local", "r2", time.Second); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("one that had not begun: %v", err)
	}
	await(t, func() bool { boxes, _ := w.counts(); return boxes == 0 })
}

// await gives work in the background its time.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to an end")
		}
	}
}

// TestRoomForResults: the store is told what it may keep, if there is a bound.
func TestRoomForResults(t *testing.T) {
	for _, room := range []int64{0, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.runs.room = -1
			limits := sessionSettings()
			limits.KeepRunBytes = room
			s := w.service(t, limits)
			go s.Sweep(t.Context())
			time.Sleep(time.Minute)
			w.runs.mu.Lock()
			defer w.runs.mu.Unlock()
			if w.runs.room != room && (room != 0 || w.runs.room != -1) {
				t.Errorf("with a bound of %d the store was told %d", room, w.runs.room)
			}
		})
	}
}
