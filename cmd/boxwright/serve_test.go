package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// TestLastLineOfAJSONLog: what ends a server is a line like any, is told once, and keeps its kind.
func TestLastLineOfAJSONLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	if err := logLast(log, nil); err != nil || out.Len() > 0 {
		t.Errorf("an end without an error: %v, %q", err, out.String())
	}
	err := logLast(log, core.Errorf(core.ErrInvalid, "no room").WithHint("make some"))
	var line struct{ Level, Error, Hint string }
	if json.Unmarshal(out.Bytes(), &line) != nil || line.Level != "ERROR" || line.Error == "" || line.Hint != "make some" {
		t.Errorf("the log has %q", out.String())
	}
	if _, told := errors.AsType[logged](err); !told || core.KindOf(err) != core.ErrInvalid || exitCode(err) != exitUsage {
		t.Errorf("what is left to tell is %v", err)
	}
}
