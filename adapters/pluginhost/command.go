package pluginhost

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// lingerTime is how long the pipes of a dead plugin are still read: a child of its own may
// hold them open for ever.
const lingerTime = 500 * time.Millisecond

// maxHandshake bounds the plugin's first line.
const maxHandshake = 16 << 10

// command runs the plugin's executable for go-plugin, in place of go-plugin's own runner,
// which hands the server's stdin to the plugin, stops reading its stdout after one long line,
// and waits for grandchildren to learn that it died.
type command struct {
	path string
	env  []string
	rest io.Writer // what the plugin prints to stdout after the handshake

	stdout io.ReadCloser
	stderr io.ReadCloser
	gone   chan struct{} // closed when the process has ended

	mu      sync.Mutex
	process *os.Process
	killed  bool
	err     error
}

func newCommand(path string, env []string, rest io.Writer) *command {
	return &command{path: path, env: env, rest: rest, gone: make(chan struct{})}
}

func (c *command) addEnv(env []string) { c.env = append(c.env, env...) }

// Start implements runner.Runner.
func (c *command) Start(context.Context) error {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return err
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		closeAll(stdout, stdoutW)
		return err
	}
	defer closeAll(stdoutW, stderrW)
	cmd := exec.Command(c.path) //nolint:gosec // the operator names it
	cmd.Env = c.env
	cmd.Stdout, cmd.Stderr = stdoutW, stderrW
	cmd.SysProcAttr = ownGroup()
	if err := c.begin(cmd); err != nil {
		closeAll(stdout, stderr)
		return err
	}
	c.stdout, c.stderr = firstLine(stdout, c.rest), stderr
	go c.wait(cmd, stdout, stderr)
	return nil
}

// begin starts cmd unless it was killed before.
func (c *command) begin(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return context.Canceled
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process = cmd.Process
	return nil
}

func (c *command) wait(cmd *exec.Cmd, pipes ...io.Closer) {
	err := cmd.Wait()
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.gone)
	time.AfterFunc(lingerTime, func() { closeAll(pipes...) })
}

func (c *command) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.process != nil {
		_ = c.process.Kill() // fails only when it is gone
	}
}

func (c *command) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

// exit tells how the process ended.
func (c *command) exit() string {
	select {
	case <-c.gone:
	default:
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return "exit status 0"
	}
	return c.err.Error()
}

// Stdout implements runner.Runner.
func (c *command) Stdout() io.ReadCloser { return c.stdout }

// Stderr implements runner.Runner.
func (c *command) Stderr() io.ReadCloser { return c.stderr }

// Name implements runner.Runner.
func (c *command) Name() string { return c.path }

// ID implements runner.Runner.
func (c *command) ID() string {
	if pid := c.pid(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// Diagnose implements runner.Runner.
func (c *command) Diagnose(context.Context) string { return "" }

// Wait implements runner.Runner.
func (c *command) Wait(context.Context) error {
	<-c.gone
	return c.err
}

// Kill implements runner.Runner.
func (c *command) Kill(context.Context) error {
	c.kill()
	return nil
}

// PluginToHost implements runner.Runner.
func (c *command) PluginToHost(network, address string) (hostNetwork, hostAddress string, err error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (c *command) HostToPlugin(network, address string) (pluginNetwork, pluginAddress string, err error) {
	return network, address, nil
}

// firstLine is a reader of r's first line, which is go-plugin's handshake. What follows goes to
// rest for as long as r lasts, so that the plugin never blocks on a full pipe.
func firstLine(r io.Reader, rest io.Writer) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		lines := bufio.NewReaderSize(r, maxHandshake)
		line, _ := lines.ReadSlice('\n')
		_, _ = in.Write(line) // fails when nobody waits for it any more
		_ = in.Close()
		_, _ = io.Copy(rest, lines)
	}()
	return out
}

func closeAll[C io.Closer](list ...C) {
	for _, c := range list {
		_ = c.Close()
	}
}
