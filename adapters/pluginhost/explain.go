package pluginhost

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// explainStart says in one sentence why a plugin did not start.
func explainStart(ctx context.Context, cfg Config, path string, cmd *command, notes *tail, err error) error {
	var ours *core.Error
	switch text := err.Error(); {
	case ctx.Err() != nil:
		return core.Errorf(core.ErrUnavailable, "the backend plugin %s is closed", cfg.Name)
	case sdk.IsLost(err):
		return startError(cfg, "stopped while it was being configured", notes, cmd)
	case errors.As(err, &ours) && ours.Kind == core.ErrTimeout:
		return startError(cfg, "did not accept its configuration in time", notes, nil)
	case ours != nil:
		return &core.Error{Kind: ours.Kind, Message: "the backend " + cfg.Name + " refused its configuration: " + core.MessageOf(ours), Hint: ours.Hint}
	case strings.Contains(text, "timeout while waiting"):
		return startError(cfg, "did not answer within "+cfg.StartTimeout.String(), notes, nil)
	case strings.Contains(text, "incompatible API version"):
		return core.Errorf(core.ErrUnavailable, "the backend plugin %s speaks another version of the protocol than this server, which speaks %d", path, sdk.ProtocolVersion).
			WithHint("install the plugin and the server from the same release")
	case strings.Contains(text, "Failed to read any lines"), strings.Contains(text, "exited before"):
		return startError(cfg, "stopped before it was ready", notes, cmd)
	case strings.Contains(text, "Unrecognized remote plugin message"), strings.Contains(text, "core protocol"), strings.Contains(text, "unsupported plugin protocol"):
		return core.Errorf(core.ErrUnavailable, "%s is not a backend plugin: it did not begin with the plugin handshake", path).
			WithHint("a plugin must print nothing to stdout before it serves")
	}
	return core.Errorf(core.ErrUnavailable, "the backend plugin %s did not start: %w", path, err)
}

func startError(cfg Config, what string, notes *tail, cmd *command) error {
	text := "the backend plugin " + cfg.Name + " " + what
	if cmd != nil {
		<-cmd.gone
		text += " (" + cmd.exit() + ")"
	}
	if last := notes.last(); last != "" {
		text += "; it said: " + last
	}
	return core.Errorf(core.ErrUnavailable, "%s", text).WithHint("the log has all that it printed")
}

// tail keeps the last bytes that a plugin wrote to stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const maxTail = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-maxTail):]...)
	t.buf = t.buf[max(0, len(t.buf)-maxTail):]
	return len(p), nil
}

// last is the last line that is not one of hclog's.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(string(t.buf), "\n")
	for _, line := range slices.Backward(lines) {
		if line := strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "{") {
			return strings.ToValidUTF8(line, "�")
		}
	}
	return ""
}
