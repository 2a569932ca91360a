// Package stdio serves an MCP server over standard input and output, for a client that started
// this process.
//
// Standard output carries JSON-RPC lines and nothing else. When the input ends, calls that are
// under way still get their answers (a script may pipe requests in), but no more notifications;
// when the client is gone, or the process is told to end, they are cancelled.
package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sys/unix"
)

// The library's bounds: its default of five workers lets five slow calls block a sixth, and calls
// beyond the queue run on the read loop, where they block everything.
const (
	workers = 100
	queue   = 1000
)

// Options are what the transport needs to know of the server.
type Options struct {
	InFlight func() int             // tool calls under way
	Unwanted func(line []byte) bool // whether a line answers what is not to be answered
	Log      *slog.Logger
}

// Serve serves until the input ends, the client is gone or ctx ends. Nothing is written to out
// after ctx has ended.
func Serve(ctx context.Context, s *server.MCPServer, in io.Reader, out *os.File, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		watchReader(ctx, out, func() {
			o.Log.Info("the client is gone")
			cancel()
		})
	})
	transport := server.NewStdioServer(s)
	transport.SetErrorLogger(slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn))
	server.WithWorkerPoolSize(workers)(transport)
	server.WithQueueSize(queue)(transport)
	gate := &gate{ctx: ctx, inFlight: o.InFlight}
	mouth := newMouth(ctx, out, o.Unwanted, &gate.ended)
	gate.in = &patience{in: &lines{in: in, most: maxLine, refuse: func(head, tail []byte) {
		o.Log.Info("a message was refused that is too long", "most", maxLine)
		_, _ = mouth.Write(longAnswer(idOf(head, tail))) // a client that does not read is told nothing
	}}}
	err := transport.Listen(ctx, gate, mouth)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// gate holds the end of the input back while calls are under way: the library cancels them
// as soon as it sees it.
type gate struct {
	ctx      context.Context
	in       io.Reader
	inFlight func() int
	ended    atomic.Bool // the client has said its last
}

// settleTime lets calls that were read just before the end get under way; pollTime is how often
// the gate looks after that.
const (
	settleTime = 100 * time.Millisecond
	pollTime   = 10 * time.Millisecond
)

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.in.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	g.ended.Store(true)
	for wait := settleTime; ; wait = pollTime {
		select {
		case <-time.After(wait):
			if g.inFlight() == 0 {
				return 0, io.EOF
			}
		case <-g.ctx.Done():
			return 0, io.EOF
		}
	}
}

// mouth writes whole lines and falls silent when the transport ends: a client that closes does
// not expect answers to calls that it gave up, and one that stopped reading must not keep the server.
type mouth struct {
	ctx        context.Context
	unwanted   func(line []byte) bool
	inputEnded *atomic.Bool
	lines      chan []byte
	wrote      chan error
}

// newMouth starts the goroutine that writes. It may be left behind in a write that nobody reads;
// the process is about to end then.
func newMouth(ctx context.Context, out io.Writer, unwanted func([]byte) bool, inputEnded *atomic.Bool) *mouth {
	m := &mouth{ctx: ctx, unwanted: unwanted, inputEnded: inputEnded, lines: make(chan []byte), wrote: make(chan error, 1)}
	go func() {
		for {
			select {
			case line := <-m.lines:
				_, err := out.Write(line)
				m.wrote <- err
			case <-ctx.Done():
				return
			}
		}
	}()
	return m
}

// Write implements io.Writer for one line; several may be written at the same time.
func (m *mouth) Write(p []byte) (int, error) {
	if m.ctx.Err() != nil || m.unwanted(p) || m.inputEnded.Load() && isNotification(p) {
		return len(p), nil
	}
	select {
	case m.lines <- bytes.Clone(p): // an abandoned write still holds it
	case <-m.ctx.Done():
		return len(p), nil
	}
	select {
	case err := <-m.wrote:
		return len(p), err
	case <-m.ctx.Done():
		return len(p), nil
	}
}

// isNotification tells a message that nobody asked for from an answer. A client that has closed
// the input may still wait for answers; official ones take anything else for a fault by then.
func isNotification(line []byte) bool {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	return json.Unmarshal(line, &message) == nil && message.ID == nil
}

// watchReader calls gone once nobody can read what is written to out any more.
func watchReader(ctx context.Context, out *os.File, gone func()) {
	const every = 250 * time.Millisecond
	for ctx.Err() == nil {
		if !hasReader(out) {
			gone()
			return
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
		}
	}
}

// hasReader asks the kernel; a file that cannot be asked counts as having one.
func hasReader(out *os.File) bool {
	raw, err := out.SyscallConn()
	if err != nil {
		return true
	}
	events := int16(0)
	_ = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a file descriptor fits
		if n, err := unix.Poll(poll, 0); err == nil && n > 0 {
			events = poll[0].Revents
		}
	})
	return events&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0
}
