package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpServer is a started server with a real client on its stdio.
type mcpServer struct {
	*client.Client
	pid     int
	startup time.Duration // from the start of the process to the answer to initialize
	halt    func() error  // of one that listens
}

func startServer(ctx context.Context, p *benchPlace, flags ...string) (*mcpServer, error) {
	began := time.Now()
	var command *exec.Cmd
	start := func(context.Context, string, []string, []string) (*exec.Cmd, error) {
		command = p.program(filepath.Join(p.dir, "boxwright"), append([]string{"serve", "--config", p.configFile()}, flags...)...)
		return command, nil
	}
	c, err := client.NewStdioMCPClientWithOptions("boxwright", nil, nil, transport.WithCommandFunc(start))
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

func (s *mcpServer) call(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	return s.use(ctx, "run_python_ephemeral", arguments)
}

func (s *mcpServer) use(ctx context.Context, tool string, arguments map[string]any) (*mcp.CallToolResult, error) {
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = tool, arguments
	return s.CallTool(ctx, request)
}

// run calls the tool and returns duration_ms of its record.
func (s *mcpServer) run(ctx context.Context, code string) (map[string]float64, error) {
	return s.runWith(ctx, code)
}

// runWith is run with packages.
func (s *mcpServer) runWith(ctx context.Context, code string, packages ...string) (map[string]float64, error) {
	record, err := succeeded(s.call(ctx, map[string]any{"code": code, "dependencies": packages}))
	if err != nil {
		return nil, err
	}
	durations := map[string]float64{}
	fields, _ := record["duration_ms"].(map[string]any)
	for phase, value := range fields {
		durations[phase], _ = value.(float64)
	}
	return durations, nil
}

// succeeded is the record of a run that did.
func succeeded(result *mcp.CallToolResult, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	record, ok := result.StructuredContent.(map[string]any)
	if !ok || result.IsError || record["status"] != "ok" {
		return nil, fmt.Errorf("the call failed: %v", result.Content)
	}
	return record, nil
}

// load measures what a server does with a lot of work at once.
func (m *measured) load(ctx context.Context) error {
	for _, part := range []func(context.Context) error{m.bigOutput, m.bigProgram, m.endless, m.atOnce, m.sustained} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bigOutput compares the time of a program that floods with the time it takes by itself.
func (m *measured) bigOutput(ctx context.Context) error {
	const flood = "import sys\nfor _ in range(20):\n  sys.stdout.write(('x'*99+'\\n')*10000)"
	before := rss(m.server.pid)
	var all, own []time.Duration
	for range 3 {
		began := time.Now()
		record, err := m.server.run(ctx, flood)
		if err != nil {
			return err
		}
		all = append(all, time.Since(began))
		own = append(own, time.Duration(record["run"]*float64(time.Millisecond)))
	}
	m.set("20 MB of output, whole call", "%s", ms(quantile(all, .5)))
	m.set("  beyond the program, its box included", "%s", ms(quantile(all, .5)-quantile(own, .5)))
	m.set("  server memory before and after", "%s, %s", before, rss(m.server.pid))
	return nil
}

func (m *measured) bigProgram(ctx context.Context) error {
	began := time.Now()
	if _, err := m.server.run(ctx, "x = '"+strings.Repeat("y", 10<<20)+"'\nprint(len(x))"); err != nil {
		return err
	}
	m.set("a program of 10 MB, whole call", "%s", ms(time.Since(began)))
	return nil
}

// endless is a program that its limit of two seconds has to stop.
func (m *measured) endless(ctx context.Context) error {
	began := time.Now()
	result, err := m.server.call(ctx, map[string]any{"code": "while True: pass", "timeout_seconds": 2})
	if err != nil {
		return err
	}
	if record, ok := result.StructuredContent.(map[string]any); !ok || record["status"] != "timed_out" {
		return fmt.Errorf("the call did not time out: %v", result.Content)
	}
	m.set("an endless program with timeout 2, back after", "%s", ms(time.Since(began)))
	return nil
}

// atOnce runs 50 programs at the same time, and checks that each has its own output and a fresh box.
func (m *measured) atOnce(ctx context.Context) error {
	const many = 50
	took, err := together(many, many, func(i int) error {
		result, err := m.server.call(ctx, map[string]any{"code": fmt.Sprintf(fresh, i)})
		if err != nil {
			return err
		}
		record, _ := result.StructuredContent.(map[string]any)
		if record["stdout"] != fmt.Sprintf("%d False\n", i) {
			return fmt.Errorf("run %d gave %v", i, result.Content)
		}
		return nil
	})
	m.set("50 runs at once, each with its own output", "%s", ms(took))
	return err
}

// fresh prints a number and whether somebody has been in the box before.
const fresh = "import os\nprint(%d, os.path.exists('/tmp/mark'))\nopen('/tmp/mark', 'w').close()"

// together does something many times, some of them at once, and returns how long all took.
func together(many, atOnce int, do func(i int) error) (time.Duration, error) {
	errs := make([]error, many)
	numbers := make(chan int)
	began := time.Now()
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := range numbers {
				errs[i] = do(i)
			}
		})
	}
	for i := range many {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	return time.Since(began), errors.Join(errs...)
}

// sustained compares how many runs a second come out of four callers that never pause with how many times
// the bare engine makes, runs and removes a box meanwhile.
func (m *measured) sustained(ctx context.Context) error {
	const many, callers = 60, 4
	ours, err := together(many, callers, func(int) error {
		_, err := m.server.run(ctx, hello)
		return err
	})
	if err != nil {
		return err
	}
	time.Sleep(refill)
	bare, err := together(many, callers, func(int) error { return m.place.runBare() })
	m.set("four callers without pause", "%.1f runs a second", many/ours.Seconds())
	m.set("  the bare engine, the same way", "%.1f runs a second", many/bare.Seconds())
	m.set("ours to the engine's, ratio", "%.2f", float64(bare)/float64(ours))
	return err
}

// rss is the resident memory of a process, for people.
func rss(pid int) string { return fmt.Sprintf("%d kB", memoryOf(pid)) }

// memoryOf reads the resident memory of a process, in KiB; 0 if it is gone.
func memoryOf(pid int) (n int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}
