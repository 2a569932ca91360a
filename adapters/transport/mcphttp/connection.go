package mcphttp

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// maxCalls is how many messages of one connection are served at a time.
const maxCalls = 100

// connection is a session of SSE as the library sees it.
type connection struct {
	*session
	notices  chan mcp.JSONRPCNotification
	answers  chan []byte   // nil is a message that has none
	calls    chan struct{} // a place for each that is served
	serving  sync.WaitGroup
	isReady  atomic.Bool
	logLevel atomic.Value

	mu           sync.Mutex
	cancels      map[string]*context.CancelFunc // of calls, by id as it came
	client       mcp.Implementation
	capabilities mcp.ClientCapabilities
}

var (
	_ server.SessionWithLogging    = (*connection)(nil)
	_ server.SessionWithClientInfo = (*connection)(nil)
)

func newConnection(s *session) *connection {
	return &connection{
		session: s, notices: make(chan mcp.JSONRPCNotification, 100),
		answers: make(chan []byte), calls: make(chan struct{}, maxCalls), cancels: map[string]*context.CancelFunc{},
	}
}

// begin takes a place for a message, until done is called. The context is of its call: it ends with the session, or
// when the call is withdrawn.
func (c *connection) begin(id json.RawMessage) (ctx context.Context, done func(), err error) {
	c.mu.Lock() // against close
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, nil, core.Errorf(core.ErrNotFound, "the stream has ended").WithHint("open /sse")
	}
	select {
	case c.calls <- struct{}{}:
	default:
		return nil, nil, core.Errorf(core.ErrExhausted, "%d calls are under way on this connection; no more are taken", maxCalls)
	}
	c.serving.Add(1)
	ctx, cancel := context.WithCancel(c.ctx)
	c.cancels[string(id)] = &cancel
	return ctx, func() {
		cancel()
		c.forget(id, &cancel)
		<-c.calls
		c.answer(nil) // whoever waits for the last call to end looks now
		c.serving.Done()
	}, nil
}

// withdraw ends the call with that id, if there is one.
func (c *connection) withdraw(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.cancels[string(id)]; cancel != nil {
		(*cancel)()
	}
}

// forget is of a call that has ended. A client that gives an id twice at a time withdraws the later call by it.
func (c *connection) forget(id json.RawMessage, cancel *context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancels[string(id)] == cancel {
		delete(c.cancels, string(id))
	}
}

// close waits for what is served. The session has ended before.
func (c *connection) close() {
	c.mu.Lock()
	c.mu.Unlock() //nolint:staticcheck // whoever comes after this sees that it has ended
	c.serving.Wait()
}

// answer hands a line to the stream, unless that has ended.
func (c *connection) answer(line []byte) {
	select {
	case c.answers <- line:
	case <-c.ctx.Done():
	}
}

// speak writes what there is to say until ctx ends or, once the server is about to, until nobody waits for an
// answer. What a call has told comes before its answer.
func (c *connection) speak(ctx, draining context.Context, out *stream) {
	ending := draining.Done()
	for {
		var err error
		select {
		case notice := <-c.notices:
			err = out.notify(notice)
		case line := <-c.answers:
			if err = c.catchUp(out); err == nil && line != nil {
				err = out.send("message", line)
			}
		case <-ending:
			ending = nil
		case <-ctx.Done():
			return
		}
		if err != nil || draining.Err() != nil && len(c.calls) == 0 {
			return
		}
	}
}

// catchUp sends the notices that wait.
func (c *connection) catchUp(out *stream) error {
	for {
		select {
		case notice := <-c.notices:
			if err := out.notify(notice); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *stream) notify(notice mcp.JSONRPCNotification) error {
	line, err := json.Marshal(notice)
	if err != nil {
		return nil //nolint:nilerr // the library made it; the stream goes on
	}
	return s.send("message", line)
}

// SessionID implements server.ClientSession.
func (c *connection) SessionID() string { return c.id }

// NotificationChannel implements server.ClientSession.
func (c *connection) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notices }

// Initialize implements server.ClientSession.
func (c *connection) Initialize() { c.isReady.Store(true) }

// Initialized implements server.ClientSession.
func (c *connection) Initialized() bool { return c.isReady.Load() }

// SetLogLevel implements server.SessionWithLogging.
func (c *connection) SetLogLevel(level mcp.LoggingLevel) { c.logLevel.Store(level) }

// GetLogLevel implements server.SessionWithLogging.
func (c *connection) GetLogLevel() mcp.LoggingLevel {
	if level, ok := c.logLevel.Load().(mcp.LoggingLevel); ok {
		return level
	}
	return mcp.LoggingLevelError
}

// GetClientInfo implements server.SessionWithClientInfo.
func (c *connection) GetClientInfo() mcp.Implementation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// SetClientInfo implements server.SessionWithClientInfo.
func (c *connection) SetClientInfo(client mcp.Implementation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = client
}

// GetClientCapabilities implements server.SessionWithClientInfo.
func (c *connection) GetClientCapabilities() mcp.ClientCapabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capabilities
}

// SetClientCapabilities implements server.SessionWithClientInfo.
func (c *connection) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capabilities = capabilities
}
