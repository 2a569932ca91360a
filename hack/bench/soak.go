package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client"
)

const (
	sessionCalls = 200 // that are timed
	settleTime   = 5 * time.Second
	soakCallers  = 4
	fewRuns      = 100 // after which a server has all that it ever needs
)

// soak is what a server does for long.
type soak struct{ runs, sessions int }

func (k soak) measure(ctx context.Context, names []string, state string, figures *table) error {
	for _, name := range names {
		p, err := placeOf(name, state)
		if err != nil {
			return err
		}
		set := func(row, format string, args ...any) {
			figures.set(row, name, format, args...)
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", name, row, fmt.Sprintf(format, args...)) // it takes long
		}
		for _, part := range []func(context.Context, *benchPlace, func(string, string, ...any)) error{k.manySessions, k.plot, k.manyRuns} {
			if err := part(ctx, p, set); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	figures.print()
	return nil
}

// manySessions tells what each session costs the server, and what many of them cost a call in one.
func (k soak) manySessions(ctx context.Context, p *benchPlace, set func(string, string, ...any)) (err error) {
	if k.sessions == 0 {
		return nil
	}
	server, err := startServer(ctx, p, "--set", "pool.enabled=false", "--set", fmt.Sprintf("limits.max_boxes=%d", k.sessions+10))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := server.open(ctx, "first"); err != nil {
		return err
	}
	one, err := server.timeCells(ctx, "first")
	if err != nil {
		return err
	}
	time.Sleep(settleTime)
	before, began := memoryOf(server.pid), time.Now()
	if _, err := together(k.sessions, soakCallers, func(i int) error { return server.open(ctx, fmt.Sprint("session ", i)) }); err != nil {
		return err
	}
	took := time.Since(began)
	time.Sleep(settleTime)
	after := memoryOf(server.pid)
	many, err := server.timeCells(ctx, "first")
	if err != nil {
		return err
	}
	if _, err := together(k.sessions, soakCallers, func(i int) error { return server.stop(ctx, fmt.Sprint("session ", i)) }); err != nil {
		return err // a server that ends has not the time for so many
	}
	set("server memory with one session", "%d kB", before)
	set(fmt.Sprintf("server memory with %d more", k.sessions), "%d kB, %.1f kB each", after, float64(after-before)/float64(k.sessions))
	set("making these", "%.1f a second", float64(k.sessions)/took.Seconds())
	set("call in a session, one open", "%s", spread(one))
	set(fmt.Sprintf("call in a session, %d open", k.sessions+1), "%s", spread(many))
	set("  ratio of the medians", "%.2f", float64(quantile(many, .5))/float64(quantile(one, .5)))
	return nil
}

func (s *mcpServer) open(ctx context.Context, name string) error {
	result, err := s.use(ctx, "sandbox_initialize", map[string]any{"name": name})
	if err == nil && result.IsError {
		err = fmt.Errorf("no sandbox: %v", result.Content)
	}
	return err
}

func (s *mcpServer) stop(ctx context.Context, name string) error {
	_, err := s.use(ctx, "sandbox_stop", map[string]any{"sandbox_id": name})
	return err
}

func (s *mcpServer) timeCells(ctx context.Context, sandbox string) (all []time.Duration, err error) {
	for n := range sessionCalls + 1 {
		began := time.Now()
		if _, err := succeeded(s.use(ctx, "run_python", map[string]any{"code": "1", "sandbox_id": sandbox})); err != nil {
			return nil, err
		}
		if n > 0 { // the first waits for the interpreter
			all = append(all, time.Since(began))
		}
	}
	return all, nil
}

// plotImage has matplotlib. The tests make it where there is an engine of Docker's.
const plotImage = "boxwright-test/matplotlib:1"

// plot is a figure in a box that waits with its modules loaded.
func (k soak) plot(ctx context.Context, p *benchPlace, set func(string, string, ...any)) (err error) {
	if p.Backend != "docker" {
		return nil
	}
	server, err := startServer(ctx, p, "--set", "images.default="+plotImage, "--set", "pool.preload=numpy,matplotlib,matplotlib.pyplot")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	const code = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.title('t'); plt.show()"
	var all []time.Duration
	for n := range rounds + 1 {
		time.Sleep(2 * refill) // such a box takes longer to be ready
		began := time.Now()
		record, err := succeeded(server.call(ctx, map[string]any{"code": code}))
		if err != nil {
			return err
		}
		if files, _ := record["files"].([]any); len(files) != 1 {
			return fmt.Errorf("a plot gave %v", record["files"])
		}
		if n > 0 {
			all = append(all, time.Since(began))
		}
	}
	set("a plot, its modules preloaded", "%s", spread(all))
	return nil
}

// manyRuns tells what grows over many one-shot runs.
func (k soak) manyRuns(ctx context.Context, p *benchPlace, set func(string, string, ...any)) error {
	few, err := k.goroutinesAfter(ctx, p, fewRuns, func(*watched, int) {})
	if err != nil {
		return err
	}
	began := time.Now()
	many, err := k.goroutinesAfter(ctx, p, k.runs, func(w *watched, done int) {
		set(fmt.Sprintf("after %d runs", done), "%s", w.figures(ctx))
	})
	set(fmt.Sprintf("goroutines after %d and %d runs", fewRuns, k.runs), "%d, %d", few, many)
	set("one-shot runs", "%.1f a second over %s", float64(k.runs)/time.Since(began).Seconds(), time.Since(began).Round(time.Second))
	return err
}

// watched is a server of which somebody watches what it takes.
type watched struct {
	*mcpServer
	place *benchPlace
	boxes *boxes
}

// figures are memory and open files of the server and its plugin, and what the engine has of it, once it has come to rest.
func (w *watched) figures(ctx context.Context) string {
	time.Sleep(settleTime)
	id, err := os.ReadFile(filepath.Join(w.place.state(), "instance"))
	if err != nil {
		return err.Error()
	}
	have, err := w.boxes.backend.List(ctx, strings.TrimSpace(string(id)))
	if err != nil {
		return err.Error()
	}
	plugin := childOf(w.pid)
	return fmt.Sprintf("server %d kB, %d files; plugin %d kB, %d files; %d boxes, %d volumes",
		memoryOf(w.pid), filesOf(w.pid), memoryOf(plugin), filesOf(plugin), len(have.Boxes), len(have.Volumes))
}

// goroutinesAfter makes runs with a server of their own, has what they cost looked at, and returns how many goroutines
// the server had in the end. It is asked in the way that ends it.
func (k soak) goroutinesAfter(ctx context.Context, p *benchPlace, runs int, look func(w *watched, done int)) (goroutines int, err error) {
	server, err := startServer(ctx, p)
	if err != nil {
		return 0, err
	}
	log := &bytes.Buffer{}
	read := make(chan struct{})
	if stderr, has := client.GetStderr(server.Client); has {
		go func() { defer close(read); _, _ = io.Copy(log, stderr) }() // it ends with the server
	}
	w := &watched{mcpServer: server, place: p}
	if w.boxes, err = openBoxes(ctx, p, "soak"); err != nil {
		return 0, errors.Join(err, server.Close())
	}
	defer w.boxes.close()
	if err := w.runs(ctx, runs, look); err != nil {
		return 0, errors.Join(err, server.Close())
	}
	time.Sleep(settleTime)
	err = syscall.Kill(server.pid, syscall.SIGQUIT)
	<-read
	_ = server.Close() // it says that it was killed
	return strings.Count(log.String(), "\ngoroutine "), err
}

// runs makes one-shot runs, and has what they cost looked at after a few of them, in the middle and at the end.
func (w *watched) runs(ctx context.Context, n int, look func(w *watched, done int)) error {
	for part, done := 0, 0; part < 3; part++ {
		target := []int{min(fewRuns, n), n / 2, n}[part]
		_, err := together(max(0, target-done), soakCallers, func(int) error {
			_, err := w.run(ctx, hello)
			return err
		})
		if err != nil {
			return err
		}
		done = max(done, target)
		look(w, done)
	}
	return nil
}

// filesOf counts what a process has open.
func filesOf(pid int) int {
	names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(names)
}

// childOf is the plugin of a server: its only child; 0 if there is none.
func childOf(pid int) (child int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // whichever thread started it
	for _, list := range lists {
		text, _ := os.ReadFile(list) //nolint:gosec // the kernel's
		if _, err := fmt.Sscan(string(text), &child); err == nil {
			return child
		}
	}
	return 0
}
