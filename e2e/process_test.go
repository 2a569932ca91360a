package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The server ends within its own bound of 8 s, and the plugin after it.
const exitLimit = 20 * time.Second

// setup is how a test wants its server; the zero value is a plain one.
type setup struct {
	state    *state   // nil is one of its own
	config   string   // the settings file
	env      []string // added to the environment
	programs string   // the folder of the executables; "" is that of all tests
	pooled   bool     // boxes wait, as they do for users; without, a test that looks at boxes sees only its own

	transport string // overStdio, or the server listens; the client is the test's matter then
}

// process is a server that runs.
type process struct {
	*state
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr *lockedBuffer
	gone   chan struct{} // closed when it has ended and all its output was read
	serves bool          // over HTTP: it does not end with its input

	mu  sync.Mutex
	bad []string // lines of stdout that are not JSON-RPC
}

// launch starts "boxwright serve" and hands each line of its stdout to eat. The test fails if a
// line is not JSON-RPC, or if the server is not gone when its input has ended.
func launch(t *testing.T, s setup, eat func(line []byte)) *process {
	t.Helper()
	if s.state == nil {
		s.state = newState(t)
	}
	if s.programs == "" {
		s.programs = programs
	}
	work := here().folder(t)
	p := &process{state: s.state, stderr: &lockedBuffer{}, gone: make(chan struct{})}
	p.cmd = here().Program(filepath.Join(s.programs, "boxwright"), "serve", "--config", settingsFile(t, here().settings(t, s.config)))
	p.cmd.Dir = work
	// Tests look at the ends of runs: none goes on in the background because the machine is slow, but where that is
	// what they are about. All else is as it is for users.
	p.cmd.Env = append(here().Environment(work), "BOXWRIGHT_STORAGE_DIR="+p.dir, "BOXWRIGHT_RUNS_SYNC_LIMIT=4m")
	if !s.pooled {
		p.cmd.Env = append(p.cmd.Env, "BOXWRIGHT_POOL_ENABLED=false")
	}
	if p.serves = s.transport != overStdio; p.serves {
		p.cmd.Env = append(p.cmd.Env, "BOXWRIGHT_TRANSPORT=http", "BOXWRIGHT_HTTP_LISTEN=127.0.0.1:0")
	}
	p.cmd.Env = append(p.cmd.Env, s.env...)
	p.cmd.Stderr = p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(eat)
	t.Cleanup(func() { p.end(t) })
	return p
}

func settingsFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(here().folder(t), "boxwright.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	here().give(t, name)
	return name
}

func (p *process) read(eat func([]byte)) {
	defer close(p.gone)
	lines := bufio.NewReader(p.stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if why := notJSONRPC(line); why != "" {
				p.mu.Lock()
				p.bad = append(p.bad, fmt.Sprintf("%s: %.200q", why, line))
				p.mu.Unlock()
			}
			eat(line)
		}
		if err != nil {
			break
		}
	}
	_ = p.cmd.Wait()
}

// notJSONRPC says why a line is no JSON-RPC message; "" if it is one.
func notJSONRPC(line []byte) string {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
		return err.Error()
	case !bytes.HasSuffix(line, []byte("}\n")):
		return "not one whole line"
	case m.Version != "2.0":
		return "no jsonrpc 2.0"
	case m.Method == "" && (m.ID == nil || (m.Result == nil) == (m.Error == nil)):
		return "neither a request nor an answer"
	}
	return ""
}

// end closes the server's input, or tells it to end, unless it is gone already, and checks how it goes.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	if p.serves {
		p.signal(t, syscall.SIGTERM)
	}
	if t.Failed() {
		_ = p.stdout.Close() // a call may still be under way
	}
	p.awaitExit(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.bad {
		t.Errorf("stdout has a line that is not JSON-RPC: %s", line)
	}
	if strings.Contains(p.stderr.String(), "panic") {
		t.Error("the server panicked")
	}
	if t.Failed() {
		t.Logf("stderr of the server:\n%s", p.stderr)
	}
}

// awaitExit returns the exit code, -1 after a signal.
func (p *process) awaitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(exitLimit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // the runtime prints where it hangs
		<-p.gone
		t.Errorf("the server was still there %s after its end", exitLimit)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// plugin returns the process id of the server's backend plugin, once there is one.
func (p *process) plugin(t *testing.T) int {
	t.Helper()
	pid := 0
	eventually(t, 20*time.Second, func() (bool, string) {
		pid = childOf(p.cmd.Process.Pid, here().plugin())
		return pid != 0, "no plugin"
	})
	return pid
}

// childOf finds a child process by the name of its executable.
func childOf(parent int, name string) int {
	entries, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, entry := range entries {
		exe, err := os.Readlink(entry)
		if err != nil || filepath.Base(exe) != name {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(entry), "status"))
		if statusField(status, "PPid") == int64(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
			return pid
		}
	}
	return 0
}

// peakMemory is the most that the server ever had resident, in bytes.
func (p *process) peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("this machine does not tell a process's memory: %v", err)
	}
	return statusField(status, "VmHWM") << 10
}

func statusField(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	return 0
}

// isAlive tells whether a process runs.
func isAlive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

// lockedBuffer is written by a process and read by a test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
