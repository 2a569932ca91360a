package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// The pace of progress: the library drops notifications beyond a queue of 100, and clients whose
// timeout is reset by progress want to hear something now and then.
const (
	progressPace  = 500 * time.Millisecond
	progressQuiet = 5 * time.Second
	// LastNotice lets the library send a notification that was queued right before the answer;
	// it is lost or comes too late otherwise.
	LastNotice = 5 * time.Millisecond
)

// progress tells one call's client how it goes.
type progress struct {
	send  func(params map[string]any)
	token mcp.ProgressToken
	began time.Time

	mu    sync.Mutex
	count int
	last  time.Time
	phase core.Phase
	held  string // came too soon after the last one
}

// newProgress returns nil when the client did not ask for progress.
func newProgress(ctx context.Context, s *server.MCPServer, meta *mcp.Meta) *progress {
	if meta == nil || meta.ProgressToken == nil {
		return nil
	}
	began := time.Now()
	return &progress{
		token: meta.ProgressToken,
		began: began,
		last:  began,
		phase: core.PhaseQueue,
		send: func(params map[string]any) {
			// A full queue or a client that is gone is no reason to stop the run.
			_ = s.SendNotificationToClient(ctx, "notifications/progress", params)
		},
	}
}

// report is the run's view of it; nil when nobody listens, so that nothing is streamed for nothing.
func (p *progress) report() func(core.Progress) {
	if p == nil {
		return nil
	}
	return func(step core.Progress) { p.tell(step.Phase, message(step)) }
}

func (p *progress) tell(phase core.Phase, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase == phase && time.Since(p.last) < progressPace {
		p.held = text
		return
	}
	p.phase = phase
	p.notify(text)
}

func (p *progress) notify(text string) {
	p.count++
	p.last, p.held = time.Now(), ""
	p.send(map[string]any{"progressToken": p.token, "progress": p.count, "message": text})
}

// watch sends what was held back, and says every few seconds that the call is still under way,
// until ctx ends.
func (p *progress) watch(ctx context.Context) {
	if p == nil {
		return
	}
	tick := time.NewTicker(progressPace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.catchUp()
		case <-ctx.Done():
			return
		}
	}
}

func (p *progress) catchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch quiet := time.Since(p.last); {
	case p.held != "" && quiet >= progressPace:
		p.notify(p.held)
	case quiet >= progressQuiet:
		p.notify(fmt.Sprintf("%s: %d s so far", p.phase, int(time.Since(p.began).Seconds())))
	}
}

// settle waits until what was sent is on its way. ended must have been called before.
func (p *progress) settle() {
	if p == nil {
		return
	}
	p.mu.Lock()
	sent := p.count > 0
	p.mu.Unlock()
	if sent {
		time.Sleep(LastNotice)
	}
}

// message is one line for a person. A program's own output may be anything: its last line, cut.
func message(step core.Progress) string {
	lines := strings.FieldsFunc(strings.ToValidUTF8(step.Message, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' })
	text := ""
	if len(lines) > 0 {
		text = clip(strings.TrimSpace(lines[len(lines)-1]), 200)
	}
	if step.Total > 0 {
		text += fmt.Sprintf(" (%s of %s)", byteCount(step.Done), byteCount(step.Total))
	}
	return text
}
