package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func request(code string) core.Request { return core.Request{Code: code, Tenant: "local"} }

func TestRunOnceTellsEverything(t *testing.T) {
	w := newWorld()
	w.contents["a.png"], w.contents["big.bin"] = "png", "too big"
	w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
		if string(spec.Code) != "print(1)" || spec.Stdin != nil || spec.Timeout != 30*time.Second {
			t.Errorf("the agent got %+v", spec)
		}
		return core.Exit{
			Code: 3, Stdout: core.Output{Head: []byte("0123456789"), Tail: []byte("abcdefghij"), Total: 50, Spilled: 40},
			Files: []core.FileInfo{{Path: "a.png", Size: 3}, {Path: "big.bin", Size: 1001}}, Warnings: []string{"from inside"},
		}, nil
	}
	service := w.service(t, settings())
	record, err := service.RunOnce(t.Context(), request("print(1)"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if record.Status != core.StatusFailed || record.ExitCode != 3 || record.Image.Ref != "python:3.11-slim" {
		t.Errorf("got %+v", record)
	}
	names := map[string]int64{}
	for _, f := range record.Files {
		names[f.Name] = f.Size
	}
	if len(names) != 2 || names["a.png"] != 3 || names["stdout.txt"] != 40 {
		t.Errorf("kept %v, want a.png of 3 and stdout.txt of 40 bytes", names)
	}
	if record.Files[0].Preview == nil {
		t.Error("the image has no preview")
	}
	warnings := strings.Join(record.Warnings, "\n")
	for _, want := range []string{"from inside", `"big.bin" has 1001 bytes`, "stdout had 50 bytes"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning says %q:\n%s", want, warnings)
		}
	}
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if boxes, _ := w.counts(); boxes != 0 {
		t.Errorf("%d boxes are left", boxes)
	}
}

func TestEachFailingStepLeavesNothing(t *testing.T) {
	for _, step := range []string{"image", "volume", "create install", "create keep", "create run", "connect", "install", "courier", "put", "write", "run"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld()
			w.fail[step] = core.Errorf(core.ErrExhausted, "no %s", step)
			r := request("x")
			r.Dependencies = []string{"six"}
			r.Files = []core.Input{{Name: "in.csv", Content: []byte("1")}}
			service := w.service(t, settings())
			_, err := service.RunOnce(t.Context(), r, nil)
			if !errors.Is(err, core.ErrExhausted) {
				t.Fatalf("got %v, want the step's own error", err)
			}
			if err := service.Close(t.Context()); err != nil {
				t.Error(err)
			}
			boxes, files := w.counts()
			if boxes != 0 || files != 0 {
				t.Errorf("%d boxes and %d files are left", boxes, files)
			}
			for _, volume := range w.volumes {
				if volume.Labels.Purpose != core.PurposeCache && volume.Labels.Purpose != core.PurposeZone { // these stay
					t.Errorf("left behind: %+v", volume)
				}
			}
		})
	}
}

// TestAFaultOfOurs ends the run and leaves nothing, and the server goes on.
func TestAFaultOfOurs(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) { panic("a fault") }
	for name, run := range map[string]func() (core.Record, error){
		"run":     func() (core.Record, error) { return s.RunOnce(t.Context(), request("x"), nil) },
		"session": func() (core.Record, error) { return s.RunInSession(t.Context(), "", cell("x"), nil) },
	} {
		for range 2 {
			if _, err := run(); core.KindOf(err) != core.ErrInternal || core.HintOf(err) == "" {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if boxes, _ := w.counts(); boxes != 0 {
		t.Errorf("%d boxes are left", boxes)
	}
}

func TestFailingCollectionIsAWarning(t *testing.T) {
	for step, want := range map[string]string{"read": "could not be kept", "keep": "could not be kept", "output": "the full stdout", "preview": "is not shown"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld()
			w.contents["a.png"] = "png"
			w.fail[step] = core.Errorf(core.ErrExhausted, "no room")
			w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
				return core.Exit{Stdout: core.Output{Total: 9}, Files: []core.FileInfo{{Path: "a.png", Size: 3}}}, nil
			}
			record, err := w.service(t, settings()).RunOnce(t.Context(), request("x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(record.Warnings, "\n"); !strings.Contains(got, want) {
				t.Errorf("no warning says %q: %s", want, got)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	service := newWorld().service(t, settings())
	seconds := func(n float64) *time.Duration { d := time.Duration(n * float64(time.Second)); return &d }
	long := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		change func(*core.Request)
		kind   core.Kind
		want   string
	}{
		"empty code":      {func(r *core.Request) { r.Code = " \n" }, core.ErrInvalid, "code is empty"},
		"NUL":             {func(r *core.Request) { r.Code = "a\x00b" }, core.ErrInvalid, "NUL character at byte 1"},
		"long code":       {func(r *core.Request) { r.Code = long }, core.ErrInvalid, "at most 1048576 are allowed"},
		"long stdin":      {func(r *core.Request) { r.Stdin = &long }, core.ErrInvalid, "stdin has 2097152 bytes"},
		"timeout 0":       {func(r *core.Request) { r.Timeout = seconds(0) }, core.ErrInvalid, "timeout_seconds is 0; it must be above 0 and at most 600"},
		"timeout -1":      {func(r *core.Request) { r.Timeout = seconds(-1) }, core.ErrInvalid, "timeout_seconds is -1"},
		"timeout 601":     {func(r *core.Request) { r.Timeout = seconds(601) }, core.ErrInvalid, "timeout_seconds is 601"},
		"foreign image":   {func(r *core.Request) { r.Image = "alpine:3" }, core.ErrDenied, "alpine:3"},
		"bad image":       {func(r *core.Request) { r.Image = "a b" }, core.ErrInvalid, "a b"},
		"option":          {func(r *core.Request) { r.Dependencies = []string{"--index-url=x"} }, core.ErrInvalid, "option of the installer"},
		"file outside":    {func(r *core.Request) { r.Files = []core.Input{{Name: "../x"}} }, core.ErrInvalid, "leaves the workspace"},
		"same file twice": {func(r *core.Request) { r.Files = []core.Input{{Name: "x"}, {Name: "x"}} }, core.ErrInvalid, "sent twice"},
		"four files":      {func(r *core.Request) { r.Files = make([]core.Input, 4) }, core.ErrInvalid, "at most 3"},
		"big files":       {func(r *core.Request) { r.Files = []core.Input{{Name: "x", Content: []byte(long)}} }, core.ErrInvalid, "at most 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("x")
			c.change(&r)
			_, err := service.RunOnce(t.Context(), r, nil)
			if core.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s: %v; want %s: %s", core.KindOf(err), err, c.kind, c.want)
			}
		})
	}
}

func TestConcurrentRunsAreBounded(t *testing.T) {
	w := newWorld()
	var mu sync.Mutex
	running, most := 0, 0
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return core.Exit{}, nil
	}
	service := w.service(t, settings())
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := service.RunOnce(t.Context(), request("x"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 4 {
		t.Errorf("%d runs at once, want exactly 4", most)
	}
}

func TestLastCallerGoneEndsTheInstall(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	begun, ended := make(chan struct{}), make(chan error, 1)
	w.install = func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	r := request("x")
	r.Dependencies = []string{"six"}
	if _, err := service.RunOnce(ctx, r, nil); !errors.Is(err, core.ErrCancelled) {
		t.Errorf("got %v, want cancelled", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the install ended with %v", err)
	}
}

func TestCloseCancelsWhatRuns(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	running := make(chan struct{})
	w.run = func(ctx context.Context, _ core.RunSpec) (core.Exit, error) {
		close(running)
		<-ctx.Done()
		return core.Exit{Cancelled: true}, nil
	}
	go func() { <-running; _ = service.Close(context.Background()) }()
	record, err := service.RunOnce(t.Context(), request("x"), nil)
	if err != nil || record.Status != core.StatusCancelled {
		t.Errorf("got %v, %v; want a record that says cancelled", record.Status, err)
	}
}

// An installation is not the caller's alone: Close waits until it has undone what it made.
func TestCloseWaitsForInstalls(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	running := make(chan struct{})
	w.install = func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // the installer takes its time to end
		return ctx.Err()
	}
	r := request("x")
	r.Dependencies = []string{"six"}
	ended := make(chan error)
	go func() {
		_, err := service.RunOnce(t.Context(), r, nil)
		ended <- err
	}()
	<-running
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, volume := range w.volumes {
		if volume.Labels.Purpose == core.PurposeCache || volume.Labels.Purpose == core.PurposeZone { // they are meant to stay
			delete(w.volumes, name)
		}
	}
	if len(w.boxes) > 0 || len(w.volumes) > 0 {
		t.Errorf("left behind: %v %v", w.boxes, w.volumes)
	}
	if err := <-ended; !errors.Is(err, core.ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

func TestSweep(t *testing.T) {
	w := newWorld()
	w.alive["other"] = true
	add := func(id, instance, server string, age, left time.Duration) {
		w.boxes[id] = core.Box{ID: id, Created: w.now.Add(-age), Labels: core.Labels{Instance: instance, Server: server, Expires: w.now.Add(left)}}
	}
	add("dead", "inst", "dead", 0, time.Hour)
	add("expired", "inst", "other", 0, -time.Second)
	add("forgotten", "inst", "me", 0, time.Hour)
	add("others", "inst", "other", time.Hour, time.Hour)
	add("foreign", "elsewhere", "dead", time.Hour, time.Hour)
	volume := func(name, server string, purpose core.Purpose) {
		w.volumes[name] = core.Volume{Name: name, Created: w.now, Labels: core.Labels{Server: server, Purpose: purpose}}
	}
	volume("known", "dead", core.PurposeZone)
	volume("empty", "dead", core.PurposeZone)
	volume("others' zone", "other", core.PurposeZone)
	volume("boxwright-zone-inst-young", "dead", core.PurposeZone)
	volume("boxwright-zone-inst-old", "dead", core.PurposeZone)
	old := w.volumes["boxwright-zone-inst-old"]
	old.Created = w.now.Add(-24 * time.Hour)
	w.volumes[old.Name] = old
	volume("half", "dead", core.PurposeEnvironment)
	volume("filling", "other", core.PurposeEnvironment)
	volume("cache", "dead", core.PurposeCache)
	w.index["k"] = core.Environment{Key: "k", Zone: "known", Backend: "fake", Created: w.now}
	if err := w.service(t, settings()).SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"dead", "expired", "forgotten"} {
		if _, left := w.boxes[gone]; left {
			t.Errorf("box %q is left", gone)
		}
	}
	if len(w.boxes) != 2 {
		t.Errorf("%d boxes are left, want the 2 that somebody needs", len(w.boxes))
	}
	if left := slices.Sorted(maps.Keys(w.volumes)); strings.Join(left, ", ") != "boxwright-zone-inst-young, cache, filling, known, others' zone" {
		t.Errorf("volumes left: %q", left)
	}
}

func TestBoxThatComesTooLateIsRemoved(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	making, gate := make(chan struct{}), make(chan struct{})
	w.creating = func() { close(making); <-gate }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-making; cancel() }()
	if _, err := service.RunOnce(ctx, request("x"), nil); !errors.Is(err, core.ErrCancelled) {
		t.Errorf("got %v, want cancelled", err)
	}
	close(gate)
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if boxes, _ := w.counts(); boxes != 0 {
		t.Errorf("%d boxes are left", boxes)
	}
}

func TestNobodyWaitsForTheFilesOfACancelledRun(t *testing.T) {
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		return core.Exit{Files: []core.FileInfo{{Path: "endless", Size: 1}}}, nil
	}
	w.reading = func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	record, err := w.service(t, settings()).RunOnce(ctx, request("x"), nil)
	if err != nil || !strings.Contains(strings.Join(record.Warnings, " "), `"endless" could not be kept`) {
		t.Errorf("got %v, warnings %q", err, record.Warnings)
	}
}

func TestSweepLeavesABoxThatIsBeingMade(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	w.creating = func() {
		w.mu.Lock()
		w.boxes["half made"] = core.Box{ID: "half made", Labels: core.Labels{Instance: "inst", Server: "me", Expires: w.now.Add(time.Hour)}}
		w.mu.Unlock()
		if err := service.SweepOnce(t.Context()); err != nil {
			t.Error(err)
		}
		if _, left := w.boxes["half made"]; !left {
			t.Error("a box was removed while it was being made")
		}
	}
	if _, err := service.RunOnce(t.Context(), request("x"), nil); err != nil {
		t.Fatal(err)
	}
}

func TestBoxOfALostCreationIsRemovedAtTheEnd(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	w.creating = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.boxes["nobody knows"] = core.Box{ID: "nobody knows", Labels: core.Labels{Instance: "inst", Server: "me", Expires: w.now.Add(time.Hour)}}
	}
	w.lose = core.Errorf(core.ErrUnavailable, "the plugin died")
	if _, err := service.RunOnce(t.Context(), request("x"), nil); !errors.Is(err, core.ErrUnavailable) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if boxes, _ := w.counts(); boxes != 0 {
		t.Errorf("%d boxes are left", boxes)
	}
}

func TestOnlySomePicturesAreShown(t *testing.T) {
	w := newWorld()
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		var exit core.Exit
		for i := range 30 {
			exit.Files = append(exit.Files, core.FileInfo{Path: fmt.Sprintf("%d.png", i), Size: 1})
		}
		return exit, nil
	}
	record, err := w.service(t, settings()).RunOnce(t.Context(), request("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, f := range record.Files {
		if f.Preview != nil {
			shown++
		}
	}
	if len(record.Files) != 30 || shown != 20 || len(record.Warnings) != 10 {
		t.Errorf("%d files, %d shown, warnings %q", len(record.Files), shown, record.Warnings)
	}
}

// TestBoxThatDiedOfMemory: when all of a box ends for want of memory, that is how the program ended.
func TestBoxThatDiedOfMemory(t *testing.T) {
	lost := core.Errorf(core.ErrUnavailable, "the box was lost while the code ran")
	for name, killed := range map[string]bool{"of memory": true, "of something else": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			service := w.service(t, settings())
			w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for id, box := range w.boxes {
					box.OOMKilled = killed
					w.boxes[id] = box
				}
				return core.Exit{}, lost
			}
			record, err := service.RunOnce(t.Context(), request("x"), nil)
			if !killed {
				if !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("got %+v, %v", record, err)
				}
				return
			}
			if err != nil || record.Status != core.StatusOOMKilled || !record.OOMKilled || record.ExitCode != 137 || record.Signal != "SIGKILL" || len(record.Warnings) != 1 {
				t.Errorf("got %+v, %v", record, err)
			}
		})
	}
}
