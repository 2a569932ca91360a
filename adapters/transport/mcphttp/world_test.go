package mcphttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// patience is when a test gives up.
const patience = 30 * time.Second

// world is a server behind a guard that believes the header User. Its tools: "who" tells who calls on which session,
// "wait" goes on until its context ends or release is closed, "tell" sends three notices before it answers, "linger" one
// before it waits, and "panic" does.
type world struct {
	*Server
	url     string
	began   chan string // who calls "wait"
	ended   chan string // and why it ended
	release chan struct{}

	mu   sync.Mutex
	over []string // "owner" of each session that is
}

func newWorld(tb testing.TB, o Options) *world {
	tb.Helper()
	w := &world{began: make(chan string, 1000), ended: make(chan string, 1000), release: make(chan struct{})}
	s := server.NewMCPServer("test", "1")
	s.AddTool(mcp.NewTool("who"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		p, _ := core.PrincipalOf(ctx)
		return mcp.NewToolResultText(p.ID + " on " + server.ClientSessionFromContext(ctx).SessionID()), nil
	})
	notify := func(ctx context.Context, progress int) {
		_ = s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": "t", "progress": progress})
	}
	wait := func(ctx context.Context) *mcp.CallToolResult {
		p, _ := core.PrincipalOf(ctx)
		w.began <- p.ID
		why := "withdrawn"
		select {
		case <-ctx.Done():
		case <-w.release:
			why = "released"
		}
		w.ended <- p.ID + " " + why
		return mcp.NewToolResultText(why)
	}
	s.AddTool(mcp.NewTool("wait"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return wait(ctx), nil
	})
	s.AddTool(mcp.NewTool("linger"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		notify(ctx, 0)
		return wait(ctx), nil
	})
	s.AddTool(mcp.NewTool("tell"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			notify(ctx, i)
		}
		return mcp.NewToolResultText("told"), nil
	})
	s.AddTool(mcp.NewTool("panic"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("a fault") })
	o.Log = slog.New(slog.DiscardHandler)
	o.Unwanted = func(line []byte) bool { return strings.Contains(string(line), "withdrawn") }
	o.Ended = func(owner, _ string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = append(w.over, owner)
	}
	w.Server = New(s, o)
	mux := http.NewServeMux()
	mux.Handle("/mcp", w.Streamable())
	mux.Handle("/sse", w.SSE())
	mux.Handle(MessagesPath, w.Messages())
	listening := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user := r.Header.Get("User"); user != "" {
			r = r.WithContext(core.WithPrincipal(r.Context(), core.Principal{ID: user}))
		}
		r.Body = http.MaxBytesReader(rw, r.Body, 10_000)
		mux.ServeHTTP(rw, r)
	}))
	w.url = listening.URL
	tb.Cleanup(listening.Close)
	tb.Cleanup(w.Close)
	return w
}

// answer is a response that was read, or is one that goes on.
type answer struct {
	*http.Response
	text   string
	events *bufio.Reader
	leave  context.CancelFunc
}

// begin sends a request and returns when the headers of the answer are there.
func (w *world) begin(t *testing.T, user, method, path, body string, headers ...string) *answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User", user)
	for _, header := range headers {
		if name, value, ok := strings.Cut(header, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return &answer{Response: response, events: bufio.NewReader(response.Body), leave: cancel}
}

// post sends a call that waits, and does not wait for it; leave is its client going away.
func (w *world) post(t *testing.T, user, body string, headers ...string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range append(headers, "Content-Type: application/json", "User: "+user) {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	go func() {
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
		}
	}()
	return cancel
}

// ask sends a request and reads the whole answer.
func (w *world) ask(t *testing.T, user, method, path, body string, headers ...string) *answer {
	t.Helper()
	a := w.begin(t, user, method, path, body, headers...)
	text, err := io.ReadAll(a.events)
	if err != nil {
		t.Fatal(err)
	}
	a.text = string(text)
	return a
}

// line reads the next line of a stream that is not empty.
func (a *answer) line(t *testing.T) string {
	t.Helper()
	for {
		line, err := a.events.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
		if err != nil {
			return "end"
		}
	}
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// open initializes a session of streamable HTTP and returns the header that names it.
func (w *world) open(t *testing.T, user string) string {
	t.Helper()
	a := w.ask(t, user, "POST", "/mcp", initializeBody)
	id := a.Header.Get("Mcp-Session-Id")
	if a.StatusCode != 200 || len(id) != 26 {
		t.Fatalf("initialize: %d %q %s", a.StatusCode, id, a.text)
	}
	return "Mcp-Session-Id: " + id
}

// stream opens a session of SSE and returns its stream and the address for messages.
func (w *world) stream(t *testing.T, user string) (*answer, string) {
	t.Helper()
	a := w.begin(t, user, "GET", "/sse", "")
	if event := a.line(t); event != "event: endpoint" {
		t.Fatalf("%d, first event %q", a.StatusCode, event)
	}
	address := strings.TrimPrefix(a.line(t), "data: ")
	if posted := w.ask(t, user, "POST", address, initializeBody); posted.StatusCode != 202 {
		t.Fatalf("initialize: %d %s", posted.StatusCode, posted.text)
	}
	if a.line(t); !strings.Contains(a.line(t), `"id":0`) {
		t.Fatal("initialize was not answered")
	}
	return a, address
}

func call(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

func modernCall(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, id, tool)
}

// listen opens the stream on which a client of a revision without sessions is told what changes.
func (w *world) listen(t *testing.T, user string) *answer {
	t.Helper()
	body := strings.Replace(modernCall(1, "x"), `"tools/call","params":{"name":"x"`, `"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}`, 1)
	return w.begin(t, user, "POST", "/mcp", body, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
}

func modernHeaders(tool string) []string {
	return []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: " + tool}
}

// cancelSeven withdraws the call with the number 7.
const cancelSeven = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`

// awaits the next word of a channel.
func awaits(t *testing.T, words <-chan string, want string) {
	t.Helper()
	select {
	case got := <-words:
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("no %q", want)
	}
}

// awaitOver waits until so many sessions were told to be over, all of them Ann's.
func (w *world) awaitOver(t *testing.T, count int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		over := strings.Join(w.over, " ")
		w.mu.Unlock()
		if over == strings.TrimSpace(strings.Repeat("ann ", count)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("over are %q, want %d of ann", over, count)
		}
	}
}
