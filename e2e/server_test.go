package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// callLimit is when a test gives a call up: far beyond what any should take.
const callLimit = 4 * time.Minute

const tool = "run_python_ephemeral"

// testImages lets clients use the images of the tests as well.
const testImages = "images: {allow: [python, \"boxwright-test/*\"]}\n"

// server is a running server with a real MCP client.
type server struct {
	*process
	client *client.Client

	mu     sync.Mutex
	calls  int
	pushes map[string][]string // messages of progress, by token
}

// serve starts a server and connects to it.
func serve(t *testing.T, s setup) *server {
	t.Helper()
	reader, lines := io.Pipe()
	srv := &server{pushes: map[string][]string{}}
	srv.process = launch(t, s, func(line []byte) { _, _ = lines.Write(line) })
	go func() { <-srv.gone; _ = lines.Close() }()
	srv.client = client.NewClient(transport.NewIO(reader, srv.stdin, io.NopCloser(strings.NewReader(""))))
	srv.client.OnNotification(srv.push)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := srv.client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.client.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ClientInfo: mcp.Implementation{Name: "boxwright-e2e", Version: "1"},
	}}); err != nil {
		t.Fatalf("initialize: %v\n%s", err, srv.stderr)
	}
	return srv
}

func (s *server) push(n mcp.JSONRPCNotification) {
	if n.Method != "notifications/progress" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token := fmt.Sprint(n.Params.AdditionalFields["progressToken"])
	s.pushes[token] = append(s.pushes[token], fmt.Sprint(n.Params.AdditionalFields["message"]))
}

// args are the arguments of a call.
type args map[string]any

// program makes the arguments of a run, with more of them as name and value in turn.
func program(code string, more ...any) args {
	a := args{"code": code}
	for i := 0; i+1 < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return a
}

// run calls the tool and returns when it has answered.
func (s *server) run(t *testing.T, a args) result {
	t.Helper()
	return s.send(t, a, nil).wait(t)
}

// begin calls the tool and asks for progress.
func (s *server) begin(t *testing.T, a args) *call {
	t.Helper()
	s.mu.Lock()
	s.calls++
	token := fmt.Sprintf("token-%d", s.calls)
	s.mu.Unlock()
	c := s.send(t, a, token)
	c.token = token
	return c
}

// call is one that is under way.
type call struct {
	server *server
	token  string
	cancel context.CancelFunc
	done   chan struct{}
	answer *mcp.CallToolResult
	err    error
}

func (s *server) send(t *testing.T, a args, token any) *call {
	t.Helper()
	return s.sendTo(t, tool, a, token)
}

// use calls a tool of any name, and returns when it has answered.
func (s *server) use(t *testing.T, name string, a args) result {
	t.Helper()
	return s.sendTo(t, name, a, nil).wait(t)
}

func (s *server) sendTo(t *testing.T, name string, a args, token any) *call {
	t.Helper()
	return s.start(name, a, token)
}

func (s *server) start(name string, a args, token any) *call {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	c := &call{server: s, cancel: cancel, done: make(chan struct{})}
	request := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: a}}
	if token != nil {
		request.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	go func() {
		defer close(c.done)
		defer cancel()
		c.answer, c.err = s.client.CallTool(ctx, request)
	}()
	return c
}

// wait returns the call's result.
func (c *call) wait(t *testing.T) result {
	t.Helper()
	<-c.done
	if c.err != nil {
		t.Fatalf("the call was not answered: %v", c.err)
	}
	return decode(t, c.answer)
}

// progress returns the messages so far.
func (c *call) progress() []string {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return append([]string{}, c.server.pushes[c.token]...)
}

// awaitProgress waits for a message that contains text.
func (c *call) awaitProgress(t *testing.T, text string) {
	t.Helper()
	eventually(t, callLimit, func() (bool, string) {
		messages := strings.Join(c.progress(), "\n")
		select {
		case <-c.done:
			if c.err != nil || !strings.Contains(messages, text) {
				t.Fatalf("the call ended early: %v %v", c.answer, c.err)
			}
		default:
		}
		return strings.Contains(messages, text), fmt.Sprintf("no %q in %q", text, messages)
	})
}

// result is the structured result of a run as users know it, with the call's content.
type result struct {
	RunID      string             `json:"run_id"`
	Status     string             `json:"status"`
	ExitCode   *int               `json:"exit_code"`
	Signal     string             `json:"signal"`
	Stdout     string             `json:"stdout"`
	Stderr     string             `json:"stderr"`
	Result     string             `json:"result"`
	SandboxID  string             `json:"sandbox_id"`
	ArchiveURL string             `json:"archive_url"`
	UploadURL  string             `json:"upload_url"`
	Truncated  truncated          `json:"truncated"`
	DurationMS map[string]float64 `json:"duration_ms"`
	Files      []file             `json:"files"`
	Error      problem            `json:"error"`
	Warnings   []string           `json:"warnings"`
	InstallLog string             `json:"install_log"`
	Backend    string             `json:"backend"`
	Image      string             `json:"image"`

	isError bool
	text    string
	images  []shownImage
	links   []mcp.ResourceLink
	raw     string
}

type truncated struct {
	StdoutBytes int `json:"stdout_bytes"`
	StderrBytes int `json:"stderr_bytes"`
}

type file struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Size     int    `json:"size"`
	MIMEType string `json:"mime_type"`
	URI      string `json:"uri"`
	URL      string `json:"url"`
}

type problem struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	// RetryAfter is in seconds.
	RetryAfter float64 `json:"retry_after"`
}

type shownImage struct {
	mimeType string
	data     []byte
}

func decode(t *testing.T, answer *mcp.CallToolResult) result {
	t.Helper()
	raw, err := json.Marshal(answer.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	r := result{isError: answer.IsError, raw: string(raw)}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("structured content %s: %v", raw, err)
	}
	r.Warnings = slices.DeleteFunc(r.Warnings, here().isDeclared)
	for _, content := range answer.Content {
		switch content := content.(type) {
		case mcp.TextContent:
			r.text += content.Text
		case mcp.ImageContent:
			data, err := base64.StdEncoding.DecodeString(content.Data)
			if err != nil {
				t.Fatal(err)
			}
			r.images = append(r.images, shownImage{content.MIMEType, data})
		case mcp.ResourceLink:
			r.links = append(r.links, content)
		default:
			t.Errorf("content of an unexpected kind: %T", content)
		}
	}
	return r
}

// file returns a file of the result by its path.
func (r result) file(t *testing.T, path string) file {
	t.Helper()
	for _, f := range r.Files {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("there is no file %q among %q", path, r.paths())
	return file{}
}

func (r result) paths() []string {
	paths := []string{}
	for _, f := range r.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// read returns the content of a resource.
func (s *server) read(t *testing.T, uri string) []byte {
	t.Helper()
	data, err := s.tryRead(uri)
	if err != nil {
		t.Fatalf("resources/read %s: %v", uri, err)
	}
	return data
}

func (s *server) tryRead(uri string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	answer, err := s.client.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
	if err != nil {
		return nil, err
	}
	if len(answer.Contents) != 1 {
		return nil, fmt.Errorf("%d contents", len(answer.Contents))
	}
	switch content := answer.Contents[0].(type) {
	case mcp.TextResourceContents:
		return []byte(content.Text), nil
	case mcp.BlobResourceContents:
		return base64.StdEncoding.DecodeString(content.Blob)
	}
	return nil, fmt.Errorf("contents of an unexpected kind: %T", answer.Contents[0])
}
