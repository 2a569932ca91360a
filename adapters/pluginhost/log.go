package pluginhost

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// The bounds of what a plugin can put into the host's log.
const (
	maxLine      = 4 << 10 // bytes
	linesPerTime = 200
	lineTime     = time.Second
)

// throttle lets linesPerTime lines through in each lineTime, and counts the others.
type throttle struct {
	mu      sync.Mutex
	since   time.Time
	passed  int
	dropped int
}

// pass reports whether a line may pass, and how many were dropped since the last one that did.
func (t *throttle) pass(now time.Time) (dropped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= lineTime {
		t.since, t.passed = now, 0
	}
	if t.passed >= linesPerTime {
		t.dropped++
		return 0, false
	}
	t.passed++
	dropped, t.dropped = t.dropped, 0
	return dropped, true
}

// bridge is the host's log as go-plugin and a plugin's hclog see it.
type bridge struct {
	out  *slog.Logger
	name string
	args []any
	gate *throttle
}

var _ hclog.Logger = (*bridge)(nil)

func newBridge(out *slog.Logger) *bridge { return &bridge{out: out, gate: &throttle{}} }

// Log implements hclog.Logger.
func (b *bridge) Log(level hclog.Level, msg string, args ...any) {
	to := slogLevel(level)
	if !b.out.Enabled(context.Background(), to) {
		return
	}
	dropped, ok := b.gate.pass(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		b.out.Warn("the plugin logs too much; lines were dropped", "lines", dropped)
	}
	b.out.Log(context.Background(), to, clip(msg), clipArgs(append(slices.Clip(b.args), args...))...)
}

// Trace implements hclog.Logger.
func (b *bridge) Trace(msg string, args ...any) { b.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (b *bridge) Debug(msg string, args ...any) { b.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (b *bridge) Info(msg string, args ...any) { b.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (b *bridge) Warn(msg string, args ...any) { b.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (b *bridge) Error(msg string, args ...any) { b.Log(hclog.Error, msg, args...) }

func (b *bridge) enabled(level hclog.Level) bool {
	return b.out.Enabled(context.Background(), slogLevel(level))
}

// IsTrace implements hclog.Logger.
func (b *bridge) IsTrace() bool { return b.enabled(hclog.Trace) }

// IsDebug implements hclog.Logger.
func (b *bridge) IsDebug() bool { return b.enabled(hclog.Debug) }

// IsInfo implements hclog.Logger.
func (b *bridge) IsInfo() bool { return b.enabled(hclog.Info) }

// IsWarn implements hclog.Logger.
func (b *bridge) IsWarn() bool { return b.enabled(hclog.Warn) }

// IsError implements hclog.Logger.
func (b *bridge) IsError() bool { return b.enabled(hclog.Error) }

// ImpliedArgs implements hclog.Logger.
func (b *bridge) ImpliedArgs() []any { return b.args }

// With implements hclog.Logger.
func (b *bridge) With(args ...any) hclog.Logger {
	more := *b
	more.args = append(slices.Clip(b.args), args...)
	return &more
}

// Name implements hclog.Logger.
func (b *bridge) Name() string { return b.name }

// Named implements hclog.Logger.
func (b *bridge) Named(name string) hclog.Logger {
	if b.name != "" {
		name = b.name + "." + name
	}
	return b.ResetNamed(name)
}

// ResetNamed implements hclog.Logger.
func (b *bridge) ResetNamed(name string) hclog.Logger {
	more := *b
	more.name = name
	return &more
}

// SetLevel implements hclog.Logger; the host's log has its own level.
func (b *bridge) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (b *bridge) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn} {
		if b.enabled(level) {
			return level
		}
	}
	return hclog.Error
}

// StandardLogger implements hclog.Logger.
func (b *bridge) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(b.StandardWriter(nil), "", 0)
}

// StandardWriter implements hclog.Logger.
func (b *bridge) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return &lineLog{bridge: b}
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Trace:
		return slog.LevelDebug - 4
	case hclog.Info:
		return slog.LevelInfo
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	default:
		return slog.LevelDebug
	}
}

func clipArgs(args []any) []any {
	const most = 40
	args = args[:min(len(args), most)]
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = clip(v)
		case fmt.Stringer, error, []byte:
			args[i] = clip(fmt.Sprint(v))
		}
	}
	return args
}

func clip(text string) string {
	if len(text) <= maxLine {
		return text
	}
	return strings.ToValidUTF8(text[:maxLine], "") + "…"
}

// lineLog logs what is written to it, line by line, at level info.
type lineLog struct {
	bridge *bridge
	mu     sync.Mutex
	line   []byte
}

func newLineLog(out *slog.Logger) *lineLog { return &lineLog{bridge: newBridge(out)} }

// Write implements io.Writer. It never fails, and keeps at most maxLine bytes.
func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range p {
		if c != '\n' && len(l.line) < maxLine {
			l.line = append(l.line, c)
			continue
		}
		l.bridge.Info(strings.ToValidUTF8(string(l.line), "�"))
		l.line = l.line[:0]
		if c != '\n' {
			l.line = append(l.line, c)
		}
	}
	return len(p), nil
}
