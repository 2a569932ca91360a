package e2e

import (
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// absentEngine is a server whose engine or plugin is not there, and parts of what it says.
type absentEngine struct {
	setup setup
	says  []string
}

// absentPlugins are for every place.
func absentPlugins() map[string]absentEngine {
	section := func(what string) setup {
		return setup{config: fmt.Sprintf("backends: {%s: {%s}}\n", here().Backend, what)}
	}
	return map[string]absentEngine{
		"no plugin":     {section("path: /nowhere/plugin"), []string{"/nowhere/plugin", "not there"}},
		"not a plugin":  {section("path: /bin/true"), []string{"plugin"}},
		"wrong plugin":  {section("sha256: " + strings.Repeat("0a", 32)), []string{"checksum"}},
		"wrong setting": {section("settings: {hots: x}"), []string{"hots"}},
	}
}

// absentSockets are for engines that have one. Docker's is named as its own command does it.
func absentSockets() map[string]absentEngine {
	switch {
	case here().isDocker():
		at := func(host string) setup { return setup{env: []string{"DOCKER_HOST=" + host}} }
		return map[string]absentEngine{
			"no backend":   {setup{config: "backend: elsewhere\n"}, []string{"elsewhere", "not there"}},
			"no socket":    {at("unix:///nowhere/docker.sock"), []string{"DOCKER_HOST", "/nowhere/docker.sock"}},
			"nobody there": {at("tcp://127.0.0.1:1"), []string{"DOCKER_HOST", "127.0.0.1:1"}},
			"no address":   {at("nonsense"), []string{"DOCKER_HOST", "unix:///var/run/docker.sock"}},
		}
	case here().Socket != "":
		at := func(host string) setup { return setup{config: here().at(host)} }
		return map[string]absentEngine{
			"no socket":    {at("unix:///nowhere/engine.sock"), []string{"settings.host", "/nowhere/engine.sock"}},
			"nobody there": {at("tcp://127.0.0.1:1"), []string{"settings.host", "127.0.0.1:1"}},
			"no address":   {at("nonsense"), []string{"settings.host", "unix:///"}},
		}
	}
	return nil
}

// TestNoEngine: a server whose engine or plugin is not there answers each call with cause and fix.
func TestNoEngine(t *testing.T) {
	require(t, "engine")
	cases := absentPlugins()
	maps.Copy(cases, absentSockets())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.setup)
			for range 2 {
				r := s.run(t, program("print(1)"))
				if !r.isError || r.Error.Type != "unavailable" && r.Error.Type != "invalid" || r.Error.Hint == "" {
					t.Fatalf("got %s", r.raw)
				}
				holds(t, r.text, c.says...)
			}
			outcome{refused: "invalid"}.check(t, s.run(t, program("")))
		})
	}
}

// TestEngineComesAndGoes: the engine is reached through a socket that is there only at times.
func TestEngineComesAndGoes(t *testing.T) {
	require(t, "engine")
	onlyWhere(t, here().Socket != "", "its engine has no socket")
	t.Parallel()
	socket := filepath.Join(here().folder(t), "engine.sock")
	s := serve(t, setup{config: here().at("unix://" + socket)})
	away := outcome{refused: "unavailable", says: []string{socket}}
	there := outcome{stdout: "1\n"}
	for range 2 {
		away.check(t, s.run(t, program("print(1)")))
		stop := forward(t, socket)
		there.check(t, s.run(t, program("print(1)")))
		s.awaitNoBoxes(t)
		stop()
	}
	stop := forward(t, socket)
	c := s.begin(t, program("import time; time.sleep(600)", "timeout_seconds", 600))
	c.awaitProgress(t, "running")
	stop()
	if r := c.wait(t); !r.isError || r.Error.Type != "unavailable" {
		t.Errorf("the engine went away in the middle: %s", r.raw)
	}
	forward(t, socket)
	there.check(t, s.run(t, program("print(1)")))
	s.awaitNoBoxes(t)
}

// forward makes a socket that leads to the engine, until stop is called.
func forward(t *testing.T, socket string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	here().give(t, socket)
	var mu sync.Mutex
	var open []net.Conn
	hold := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			network, address, _ := strings.Cut(here().Socket, "://")
			to, err := net.Dial(network, address)
			if err != nil {
				_ = from.Close()
				continue
			}
			hold(from)
			hold(to)
			go pipe(from, to)
			go pipe(to, from)
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
	})
	t.Cleanup(stop)
	return stop
}

// pipe copies one direction, and passes its end on as an end of that direction only.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// TestPluginKilled: the plugin is started again, finds the box that still lives, and neither the
// run under way nor the next one loses anything.
func TestPluginKilled(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{})
	for range 2 {
		c := s.begin(t, program("import time; print('before'); time.sleep(4); print('after'); open('f', 'w').write('f')"))
		c.awaitProgress(t, "running")
		s.killPlugin(t)
		outcome{stdout: "next\n"}.check(t, s.run(t, program("print('next')")))
		outcome{stdout: "before\nafter\n", files: []string{"f"}}.check(t, c.wait(t))
		s.awaitNoBoxes(t)
	}
}

// killPlugin returns when another plugin has taken the dead one's place.
func (p *process) killPlugin(t *testing.T) {
	t.Helper()
	dead := p.plugin(t)
	if err := syscall.Kill(dead, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, exitLimit, func() (bool, string) {
		return p.plugin(t) != dead, "the plugin was not started again"
	})
}

// TestTwoServersOneState: they share what is installed, and leave each other's boxes alone.
func TestTwoServersOneState(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	one := serve(t, setup{state: state})
	long := one.begin(t, program("import sys; print(sys.stdin.read()); import time; time.sleep(20); print('whole')", "stdin", "in"))
	long.awaitProgress(t, "running")
	box := state.awaitBox(t, "run")

	two := serve(t, setup{state: state})
	outcome{stdout: "2\n"}.check(t, two.run(t, program("print(2)")))
	eventually(t, 3*time.Second, func() (bool, string) { // Podman 4 may leave one out of a list
		return slices.Contains(state.boxes(t), box), "the second server removed the first one's box"
	})
	outcome{stdout: "in\nwhole\n"}.check(t, long.wait(t))
	six := program("import six; print(six.__name__)", "dependencies", []string{"six"})
	outcome{stdout: "six\n"}.check(t, two.run(t, six))
	two.end(t)
	again := one.run(t, six)
	outcome{stdout: "six\n"}.check(t, again)
	if again.InstallLog != "" {
		t.Error("what the one installed, the other installed again")
	}
}

// nothingButJSONRPC: whatever a client sends, stdout stays a protocol, and the server goes on.
// The harness checks each line, of this and of all other servers.
func nothingButJSONRPC(t *testing.T, _ *server) {
	w := connect(t, setup{pooled: true, config: "log: {level: debug}\n"})
	for _, line := range []string{
		"", "hello", "{", "[]", "null", `"text"`, "\x00\xff", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"id":1}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		w.sendf(t, "%s", line)
	}
	w.handshake(t)
	w.sendf(t, "%s", callLine(t, 7, program("import sys\nprint('{\"jsonrpc\":\"2.0\"}', flush=True)\nsys.stderr.write('\\x1b[31mred\\r\\n')")))
	outcome{stdout: "{\"jsonrpc\":\"2.0\"}\n", stderr: "red", any: true}.check(t, textless(w.await(t, "7").result(t)))
	w.killPlugin(t)
	w.sendf(t, "%s", callLine(t, 8, program("print('next')")))
	outcome{stdout: "next\n"}.check(t, textless(w.await(t, "8").result(t)))
}

// textless gives a result that was read from the wire the text that it is not checked for.
func textless(r result) result {
	r.text = r.Status + " ("
	return r
}

// TestCancelledOnTheWire: a cancelled call ends, and gets no answer: clients take one for a fault.
func TestCancelledOnTheWire(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	w := connect(t, setup{})
	w.handshake(t)
	w.sendf(t, "%s", callLine(t, 5, program("import time; time.sleep(600)", "timeout_seconds", 600)))
	w.awaitMessage(t, "progress", func(m message) bool { return strings.Contains(string(m.line), `"running"`) })
	w.awaitBox(t, "run")
	w.sendf(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	w.awaitNoBoxes(t)
	w.sendf(t, `{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	w.awaitMessage(t, "the answer to 6", func(m message) bool {
		if string(m.ID) == "5" {
			t.Errorf("the cancelled call was answered: %s", m.line)
		}
		return string(m.ID) == "6"
	})
}
