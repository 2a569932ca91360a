// Command bench measures Boxwright against the bare engine, in one run on one machine, and prints
// ratios. It asserts nothing: figures of a busy machine are no fault.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	image = "python:3.11-slim"
	hello = "print('hello')"
	pairs = 15
	runs  = 300
)

func main() {
	if err := bench(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context) error {
	state, err := os.MkdirTemp("", "boxwright-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state) //nolint:errcheck // a temporary folder
	server, err := startServer(ctx, state)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the process is ended by it
	for _, part := range []func(context.Context, *mcpServer) error{startup, cold, bigOutput, bigProgram, endless, atOnce} {
		if err := part(ctx, server); err != nil {
			return err
		}
	}
	return waitingBox(ctx, state)
}

// mcpServer is a started server with a real client on its stdio.
type mcpServer struct {
	*client.Client
	pid     int
	startup time.Duration // from the start of the process to the answer to initialize
}

func startServer(ctx context.Context, state string) (*mcpServer, error) {
	began := time.Now()
	var command *exec.Cmd
	start := func(ctx context.Context, name string, env []string, args []string) (*exec.Cmd, error) {
		command = exec.CommandContext(ctx, name, args...) //nolint:gosec // our own binary
		command.Env = append(os.Environ(), env...)
		return command, nil
	}
	c, err := client.NewStdioMCPClientWithOptions(filepath.Join("bin", "boxwright"), nil,
		[]string{"serve", "--set", "storage.dir=" + state, "--set", "log.level=warn"}, commandOption(start))
	if err != nil {
		return nil, err
	}
	var request mcp.InitializeRequest
	request.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	request.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
	if _, err := c.Initialize(ctx, request); err != nil {
		return nil, err
	}
	return &mcpServer{Client: c, pid: command.Process.Pid, startup: time.Since(began)}, nil
}

func startup(_ context.Context, s *mcpServer) error {
	row("server start to answered initialize", "%s", ms(s.startup))
	row("server memory, idle", "%s", rss(s.pid))
	return nil
}

// cold compares a call whose box must be made with the engine's own run of the same image.
func cold(ctx context.Context, s *mcpServer) error {
	var ours, bare []time.Duration
	var phases []map[string]float64
	for i := range pairs + 1 {
		began := time.Now()
		out, err := exec.CommandContext(ctx, "docker", "run", "--rm", "--network", "none", image, "python3", "-c", hello).Output()
		if err != nil || string(out) != "hello\n" {
			return fmt.Errorf("docker run: %q, %w", out, err)
		}
		bareTime := time.Since(began)
		began = time.Now()
		record, err := s.run(ctx, hello)
		if err != nil {
			return err
		}
		if i == 0 {
			continue // the first of each fills caches
		}
		bare, ours = append(bare, bareTime), append(ours, time.Since(began))
		phases = append(phases, record)
	}
	row("cold one-shot, through an MCP client", "p50 %s  p99 %s", ms(quantile(ours, .5)), ms(quantile(ours, .99)))
	row("docker run --rm of the same image", "p50 %s  p99 %s", ms(quantile(bare, .5)), ms(quantile(bare, .99)))
	row("  ratio", "%.2f", ratio(ours, bare))
	for _, phase := range []string{"queue", "image", "box", "run"} {
		var all []time.Duration
		for _, p := range phases {
			all = append(all, time.Duration(p[phase]*float64(time.Millisecond)))
		}
		row("  of which "+phase, "p50 %s", ms(quantile(all, .5)))
	}
	return nil
}

// bigOutput compares the time of a program that floods with the time it takes by itself.
func bigOutput(ctx context.Context, s *mcpServer) error {
	const flood = "import sys\nfor _ in range(20):\n  sys.stdout.write(('x'*99+'\\n')*10000)"
	before := rss(s.pid)
	var all, own []time.Duration
	for range 3 {
		began := time.Now()
		record, err := s.run(ctx, flood)
		if err != nil {
			return err
		}
		all = append(all, time.Since(began))
		own = append(own, time.Duration(record["run"]*float64(time.Millisecond)))
	}
	row("20 MB of output, whole call", "p50 %s", ms(quantile(all, .5)))
	row("  beyond the program, its box included", "p50 %s", ms(quantile(all, .5)-quantile(own, .5)))
	row("  server memory before and after", "%s  %s", before, rss(s.pid))
	return nil
}

func bigProgram(ctx context.Context, s *mcpServer) error {
	began := time.Now()
	if _, err := s.run(ctx, "x = '"+strings.Repeat("y", 10<<20)+"'\nprint(len(x))"); err != nil {
		return err
	}
	row("a program of 10 MB, whole call", "%s", ms(time.Since(began)))
	return nil
}

// endless is a program that its limit of two seconds has to stop.
func endless(ctx context.Context, s *mcpServer) error {
	began := time.Now()
	result, err := s.call(ctx, map[string]any{"code": "while True: pass", "timeout_seconds": 2})
	if err != nil {
		return err
	}
	if record, ok := result.StructuredContent.(map[string]any); !ok || record["status"] != "timed_out" {
		return fmt.Errorf("the call did not time out: %v", result.Content)
	}
	row("an endless program with timeout 2", "back after %s", ms(time.Since(began)))
	return nil
}

// atOnce runs 20 programs at the same time, and checks that each has its own output.
func atOnce(ctx context.Context, s *mcpServer) error {
	const many = 20
	errs := make([]error, many)
	var all sync.WaitGroup
	began := time.Now()
	for i := range many {
		all.Go(func() {
			result, err := s.call(ctx, map[string]any{"code": fmt.Sprintf("print(%d)", i)})
			if err != nil {
				errs[i] = err
				return
			}
			record, _ := result.StructuredContent.(map[string]any)
			if record["stdout"] != fmt.Sprintf("%d\n", i) {
				errs[i] = fmt.Errorf("run %d printed %v", i, record["stdout"])
			}
		})
	}
	all.Wait()
	row("20 runs at once, each with its own output", "%s", ms(time.Since(began)))
	return errors.Join(errs...)
}

func (s *mcpServer) call(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	var request mcp.CallToolRequest
	request.Params.Name = "run_python_ephemeral"
	request.Params.Arguments = arguments
	return s.CallTool(ctx, request)
}

// run calls the tool and returns duration_ms of its record.
func (s *mcpServer) run(ctx context.Context, code string) (map[string]float64, error) {
	result, err := s.call(ctx, map[string]any{"code": code})
	if err != nil {
		return nil, err
	}
	record, ok := result.StructuredContent.(map[string]any)
	if !ok || result.IsError || record["status"] != "ok" {
		return nil, fmt.Errorf("the call failed: %v", result.Content)
	}
	durations := map[string]float64{}
	fields, _ := record["duration_ms"].(map[string]any)
	for phase, value := range fields {
		durations[phase], _ = value.(float64)
	}
	return durations, nil
}

func row(name, format string, args ...any) {
	fmt.Printf("%-42s %s\n", name, fmt.Sprintf(format, args...))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// ratio is the median of the ratios pair by pair: it holds when the machine's speed drifts.
func ratio(a, b []time.Duration) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// rss reads the resident memory of a process.
func rss(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
