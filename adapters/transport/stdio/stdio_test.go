package stdio

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// slow is a server with one tool that says when it began and answers when it is let go.
func slow(t *testing.T) (s *server.MCPServer, inFlight *atomic.Int64, began chan struct{}, release chan struct{}) {
	t.Helper()
	inFlight, began, release = new(atomic.Int64), make(chan struct{}, 1), make(chan struct{})
	s = server.NewMCPServer("test", "1")
	s.AddTool(mcp.NewTool("slow"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		inFlight.Add(1)
		defer inFlight.Add(-1)
		began <- struct{}{}
		select {
		case <-release:
			return mcp.NewToolResultText("whole answer"), nil
		case <-ctx.Done():
			return mcp.NewToolResultText("cancelled"), nil
		}
	})
	return s, inFlight, began, release
}

const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}` + "\n"

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

func options(inFlight *atomic.Int64) Options {
	unwanted := func(line []byte) bool { return bytes.Contains(line, []byte("cancelled")) }
	return Options{InFlight: func() int { return int(inFlight.Load()) }, Unwanted: unwanted, Log: slog.New(slog.DiscardHandler)}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestCallsUnderWayAreAnsweredAfterTheInputEnds(t *testing.T) {
	s, inFlight, began, release := slow(t)
	r, w := pipe(t)
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), s, strings.NewReader(call), w, options(inFlight)) }()
	<-began
	time.AfterFunc(3*settleTime, func() { close(release) })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.Close()
	if out, _ := io.ReadAll(r); !bytes.Contains(out, []byte("whole answer")) {
		t.Errorf("got %q, want the answer", out)
	}
}

func TestAfterTheInputEndsThereAreOnlyAnswers(t *testing.T) {
	var inFlight atomic.Int64
	say := make(chan string)
	s := server.NewMCPServer("test", "1")
	s.AddTool(mcp.NewTool("slow"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		inFlight.Add(1)
		defer inFlight.Add(-1)
		for text := range say {
			if err := s.SendNotificationToClient(ctx, "notifications/"+text, nil); err != nil {
				t.Error(err)
			}
		}
		return mcp.NewToolResultText("whole answer"), nil
	})
	r, w := pipe(t)
	in, hold := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), s, in, w, options(&inFlight)) }()
	hear := bufio.NewReader(r)
	if _, err := io.WriteString(hold, initialize); err != nil {
		t.Fatal(err)
	}
	if _, err := hear.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(hold, call); err != nil {
		t.Fatal(err)
	}
	say <- "before"
	if line, err := hear.ReadString('\n'); err != nil || !strings.Contains(line, "notifications/before") {
		t.Fatalf("got %q, %v, want the notification", line, err)
	}
	hold.Close()
	time.Sleep(settleTime / 2)
	say <- "after"
	time.Sleep(settleTime / 2)
	close(say)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.Close()
	out, _ := io.ReadAll(hear)
	if lines := bytes.Count(out, []byte("\n")); lines != 1 || !bytes.Contains(out, []byte("whole answer")) {
		t.Errorf("got %q, want the answer alone", out)
	}
}

func TestClientThatIsGoneEndsItsCalls(t *testing.T) {
	s, inFlight, began, _ := slow(t)
	r, w := pipe(t)
	in, hold := io.Pipe()
	defer hold.Close()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), s, in, w, options(inFlight)) }()
	if _, err := io.WriteString(hold, call); err != nil {
		t.Fatal(err)
	}
	<-began
	r.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := inFlight.Load(); n != 0 {
		t.Errorf("%d calls are still under way", n)
	}
}

func TestCancelledCallGetsNoAnswer(t *testing.T) {
	s, inFlight, began, _ := slow(t)
	r, w := pipe(t)
	in, hold := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), s, in, w, options(inFlight)) }()
	if _, err := io.WriteString(hold, initialize+call); err != nil {
		t.Fatal(err)
	}
	<-began
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n"
	if _, err := io.WriteString(hold, cancel+`{"jsonrpc":"2.0","id":8,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	hold.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.Close()
	out, _ := io.ReadAll(r)
	if bytes.Contains(out, []byte(`"id":7`)) || !bytes.Contains(out, []byte(`"id":8`)) {
		t.Errorf("got %q, want no answer to the call, and one to the ping", out)
	}
}

func TestNothingIsWrittenOnceItIsOver(t *testing.T) {
	s, inFlight, began, _ := slow(t)
	r, w := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	in, hold := io.Pipe()
	defer hold.Close()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, s, in, w, options(inFlight)) }()
	if _, err := io.WriteString(hold, call); err != nil {
		t.Fatal(err)
	}
	<-began
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.Close()
	if out, _ := io.ReadAll(r); len(out) != 0 {
		t.Errorf("got %q after the end", out)
	}
}

func TestClientThatDoesNotReadCannotHoldTheServer(t *testing.T) {
	s, inFlight, _, _ := slow(t)
	_, w := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	in, hold := io.Pipe()
	defer hold.Close()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, s, in, w, options(inFlight)) }()
	ping := `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 100<<10) + `","method":"ping"}` + "\n" // its answer fills the pipe
	for range 3 {
		if _, err := io.WriteString(hold, ping); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
