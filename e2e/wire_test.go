package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

// wire is a running server with a client that sends and receives lines, for what no library sends.
type wire struct {
	*process
	inbox chan message
	http  *httpWire // nil on stdio
}

// message is one line from the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	line []byte
}

func connect(t *testing.T, s setup) *wire {
	t.Helper()
	w := newWire()
	w.process = launch(t, s, w.take)
	if s.transport != overStdio {
		w.http = dialHTTP(t, w.process, s.transport, w.take)
	}
	return w
}

func newWire() *wire { return &wire{inbox: make(chan message, 10_000)} }

// dial is another client of a server over HTTP.
func (p *process) dial(t *testing.T, way string) *wire {
	t.Helper()
	w := newWire()
	w.process, w.http = p, dialHTTP(t, p, way, w.take)
	return w
}

// take puts a line of the server's into the inbox.
func (w *wire) take(line []byte) {
	m := message{line: bytes.Clone(line)}
	if json.Unmarshal(line, &m) == nil { // what is not JSON-RPC fails the test at its end
		w.inbox <- m
	}
}

// handshake initialises a session, as clients up to 2025-11-25 do.
func (w *wire) handshake(t *testing.T) {
	t.Helper()
	w.sendf(t, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`)
	w.await(t, `"init"`)
	w.sendf(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (w *wire) sendf(t *testing.T, format string, values ...any) {
	t.Helper()
	line := format
	if len(values) > 0 {
		line = fmt.Sprintf(format, values...)
	}
	if w.http != nil {
		w.http.send(t, []byte(line))
		return
	}
	if _, err := w.stdin.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

// await returns the answer to a request by its id, as it is written, and drops what comes before.
func (w *wire) await(t *testing.T, id string) message {
	t.Helper()
	return w.awaitMessage(t, "the answer to "+id, func(m message) bool { return m.Method == "" && string(m.ID) == id })
}

func (w *wire) awaitMessage(t *testing.T, what string, ok func(message) bool) message {
	t.Helper()
	patience := time.After(callLimit)
	for {
		select {
		case m := <-w.inbox:
			if ok(m) {
				return m
			}
		case <-w.gone:
			t.Fatalf("the server ended without %s\n%s", what, w.stderr)
		case <-patience:
			t.Fatalf("no %s\n%s", what, w.stderr)
		}
	}
}

// result decodes the answer to a tools/call.
func (m message) result(t *testing.T) result {
	t.Helper()
	var answer struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	}
	if err := json.Unmarshal(m.Result, &answer); err != nil {
		t.Fatalf("%s: %v", m.line, err)
	}
	r := result{isError: answer.IsError, raw: string(answer.StructuredContent)}
	if err := json.Unmarshal(answer.StructuredContent, &r); err != nil {
		t.Fatalf("%s: %v", m.line, err)
	}
	r.Warnings = slices.DeleteFunc(r.Warnings, here().isDeclared)
	return r
}

// callLine is a tools/call request.
func callLine(t *testing.T, id int, a args) string {
	t.Helper()
	raw, err := json.Marshal(args{
		"jsonrpc": "2.0", "id": id, "method": "tools/call",
		"params": args{"name": tool, "arguments": a, "_meta": args{"progressToken": id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
