package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The ways in which a client talks to a server.
const (
	overStdio      = ""
	overStreamable = "streamable"
	overSSE        = "sse"
)

// address is where a server over HTTP listens, by its log.
func (p *process) address(t *testing.T) string {
	t.Helper()
	var found []string
	eventually(t, time.Minute, func() (bool, string) {
		found = regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(p.stderr.String())
		return found != nil, "it does not listen"
	})
	return found[1]
}

// httpWire sends a client's lines over HTTP, and makes lines of what comes back.
type httpWire struct {
	url   string
	eat   func(line []byte)
	done  context.Context
	leave context.CancelFunc
	key   string // "" is none

	mu       sync.Mutex
	session  string
	endpoint string // of SSE
}

// dialHTTP connects to a server; what it says is eaten.
func dialHTTP(t *testing.T, p *process, way string, eat func(line []byte)) *httpWire {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h := &httpWire{url: "http://" + p.address(t), eat: eat, done: ctx, leave: cancel}
	if way == overStreamable {
		return h
	}
	response := h.do(t, "GET", "/sse", nil) //nolint:bodyclose // below
	connected := make(chan string, 1)
	go func() {
		defer response.Body.Close()
		h.events(response.Body, connected)
	}()
	h.endpoint = <-connected
	return h
}

func (h *httpWire) do(t *testing.T, method, path string, body []byte) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(h.done, method, h.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range h.headers(body) {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	return response
}

// headers are those that each revision of the protocol wants.
func (h *httpWire) headers(body []byte) map[string]string {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name string         `json:"name"`
			URI  string         `json:"uri"`
			Meta map[string]any `json:"_meta"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m) // a transcript may send anything
	headers := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	if version, ok := m.Params.Meta["io.modelcontextprotocol/protocolVersion"].(string); ok {
		headers["Mcp-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"] = version, m.Method, m.Params.Name+m.Params.URI
	}
	if h.key != "" {
		headers["Authorization"] = "Bearer " + h.key
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session != "" {
		headers["Mcp-Session-Id"] = h.session
	}
	return headers
}

// send posts a line. What has an answer is not waited for, and what has none is taken before send returns.
func (h *httpWire) send(t *testing.T, line []byte) {
	t.Helper()
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(line, &m)
	post := func() {
		path := h.endpoint
		if path == "" {
			path = "/mcp"
		}
		if response := h.do(t, "POST", path, line); response != nil { //nolint:bodyclose // read does it
			h.read(response)
		}
	}
	if h.endpoint == "" && m.ID != nil {
		go post()
	} else {
		post()
	}
}

// read eats the messages of an answer.
func (h *httpWire) read(response *http.Response) {
	defer response.Body.Close()
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		h.mu.Lock()
		h.session = id
		h.mu.Unlock()
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		h.events(response.Body, nil)
		return
	}
	if text, err := io.ReadAll(response.Body); err == nil && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		h.eat(append(bytes.TrimSpace(text), '\n'))
	}
}

// events eats the messages of a stream, and tells the address that it begins with.
func (h *httpWire) events(stream io.Reader, connected chan<- string) {
	lines := bufio.NewReader(stream)
	event := ""
	for {
		line, err := lines.ReadString('\n')
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = strings.TrimSpace(name)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if event == "endpoint" {
				connected <- strings.TrimSpace(data)
			} else {
				h.eat([]byte(data))
			}
		}
		if err != nil {
			return
		}
	}
}

// TestASandboxOfAConnection ends with its session, whichever way that ends, and no other does.
func TestASandboxOfAConnection(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	p := launch(t, setup{transport: overStreamable}, nil)
	for _, way := range []string{overStreamable, overSSE} {
		w := p.dial(t, way)
		w.handshake(t)
		w.sendf(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x = 41"}}}`)
		w.await(t, "1")
		w.sendf(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x + 1"}}}`)
		if r := w.await(t, "2").result(t); r.Result != "42" {
			t.Errorf("%s: the connection has no sandbox of its own: %s", way, r.raw)
		}
		if way == overStreamable {
			response := w.http.do(t, "DELETE", "/mcp", nil)
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("its end: %d", response.StatusCode)
			}
		}
		w.http.leave()
		p.awaitNoBoxes(t)
	}
}

// TestAServerThatIsToldToEnd lets a call end first, and leaves nothing.
func TestAServerThatIsToldToEnd(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	for _, way := range []string{overStreamable, overSSE} {
		w := connect(t, setup{pooled: true, transport: way})
		w.handshake(t)
		w.sendf(t, "%s", callLine(t, 7, program("import time\ntime.sleep(2)\nprint('whole')")))
		w.awaitMessage(t, "progress", func(m message) bool { return m.Method == "notifications/progress" })
		w.signal(t, syscall.SIGTERM)
		if r := w.await(t, "7").result(t); r.Stdout != "whole\n" {
			t.Errorf("%s: the call under way got %s", way, r.raw)
		}
		if code := w.awaitExit(t); code != 0 {
			t.Errorf("%s: exit code %d", way, code)
		}
	}
}
