package mcphttp

import (
	"strings"
	"testing"
	"time"
)

// A cancellation right behind its call finds it, whatever its number, and a call that was withdrawn leaves nothing.
func TestCancelledAtOnce(t *testing.T) {
	w := newWorld(t, Options{})
	_, address := w.stream(t, "ann")
	const big = "9007199254740993"
	for range 50 {
		w.ask(t, "ann", "POST", address, strings.Replace(call(7, "wait"), "7", big, 1))
		w.ask(t, "ann", "POST", address, strings.Replace(cancelSeven, "7", big, 1))
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c := w.connection(strings.TrimPrefix(address, MessagesPath+"?session_id="))
		c.mu.Lock()
		left := len(c.cancels)
		c.mu.Unlock()
		if left == 0 && len(c.calls) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls go on", len(c.calls))
		}
	}
}

func TestStreamsShowThatTheyLive(t *testing.T) {
	w := newWorld(t, Options{Heartbeat: 10 * time.Millisecond})
	stream, address := w.stream(t, "ann")
	session := w.open(t, "ann")
	listening := w.begin(t, "ann", "GET", "/mcp", "", session)
	for name, a := range map[string]*answer{
		"SSE": stream, "streamable": listening, "modern": w.listen(t, "ann"),
		"an answer":         w.begin(t, "ann", "POST", "/mcp", call(7, "linger"), w.open(t, "ann")),
		"an answer, modern": w.begin(t, "ann", "POST", "/mcp", modernCall(7, "linger"), modernHeaders("linger")...),
	} {
		for line := a.line(t); line != ": still here"; line = a.line(t) {
			if !strings.HasPrefix(line, "event: message") && !strings.HasPrefix(line, "data: {") {
				t.Errorf("%s: %q", name, line)
				break
			}
		}
		if a.Header.Get("X-Accel-Buffering") != "no" || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", name, a.Header)
		}
	}
	w.ask(t, "ann", "POST", address, call(1, "who"))
	for line := stream.line(t); line != "event: message"; line = stream.line(t) {
		if line != ": still here" {
			t.Fatalf("got %q", line)
		}
	}
}

func TestNoticesComeBeforeTheAnswer(t *testing.T) {
	w := newWorld(t, Options{})
	stream, address := w.stream(t, "ann")
	for range 20 {
		w.ask(t, "ann", "POST", address, call(5, "tell"))
		for _, want := range []string{`"progress":0`, `"progress":1`, `"progress":2`, `"id":5`} {
			if stream.line(t) != "event: message" {
				t.Fatal("no event")
			}
			if line := stream.line(t); !strings.Contains(line, want) {
				t.Fatalf("got %s, want %s", line, want)
			}
		}
	}
}

func TestAPanicIsAnswered(t *testing.T) {
	w := newWorld(t, Options{})
	stream, address := w.stream(t, "ann")
	w.ask(t, "ann", "POST", address, call(5, "panic"))
	stream.line(t)
	if line := stream.line(t); !strings.Contains(line, `"id":5`) || strings.Contains(line, "a fault\"") {
		t.Errorf("got %s", line)
	}
}

func TestCallsOnAConnectionAreBounded(t *testing.T) {
	w := newWorld(t, Options{})
	_, address := w.stream(t, "ann")
	for id := range maxCalls {
		w.ask(t, "ann", "POST", address, call(id, "wait"))
	}
	if a := w.ask(t, "ann", "POST", address, call(maxCalls, "who")); a.StatusCode != 429 {
		t.Errorf("one more: %d", a.StatusCode)
	}
	close(w.release)
}

func TestPrefix(t *testing.T) {
	w := newWorld(t, Options{Prefix: "/tools"})
	a := w.begin(t, "ann", "GET", "/sse", "")
	if a.line(t); !strings.HasPrefix(a.line(t), "data: /tools/messages/?session_id=") {
		t.Error("the address is not below the proxy's path")
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t, Options{})
	session := w.open(t, "ann")
	listening := w.begin(t, "ann", "GET", "/mcp", "", session)
	modern := w.listen(t, "ann")
	if modern.line(t); !strings.Contains(modern.line(t), "acknowledged") {
		t.Error("nobody listens")
	}
	quiet, _ := w.stream(t, "ann")
	stream, address := w.stream(t, "ann")
	w.ask(t, "ann", "POST", address, call(5, "wait"))
	awaits(t, w.began, "ann")
	w.Drain()
	for name, a := range map[string]*answer{"streamable": listening, "SSE": quiet, "modern": modern} {
		if line := a.line(t); line != "end" {
			t.Errorf("%s goes on with %q", name, line)
		}
	}
	if a := w.ask(t, "ann", "POST", "/mcp", initializeBody); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("a new session: %d", a.StatusCode)
	}
	if a := w.ask(t, "ann", "POST", "/mcp", call(1, "who"), session); a.StatusCode != 200 {
		t.Errorf("a call of an open session: %d", a.StatusCode)
	}
	close(w.release)
	if stream.line(t); !strings.Contains(stream.line(t), `"id":5`) || stream.line(t) != "end" {
		t.Error("the call under way was not answered, or its stream goes on")
	}
	w.Close()
	w.awaitOver(t, 4)
}
