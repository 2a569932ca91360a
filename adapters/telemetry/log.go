// Package telemetry makes the server's log. It writes to the given writer only; standard output
// is never it.
package telemetry

import (
	"io"
	"log/slog"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/boxwright/boxwright/core"
)

// NewLog returns a logger of level (debug, info, warn, error) and format (text, json) on w.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, core.Errorf(core.ErrInvalid, "log.level is %q; it must be debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, core.Errorf(core.ErrInvalid, "log.format is %q; it must be text or json", format)
}

// Capture sends what a library writes with logrus, which it cannot be told to leave, to the log.
func Capture(library *logrus.Logger, log *slog.Logger) {
	library.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer())
	library.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
}
