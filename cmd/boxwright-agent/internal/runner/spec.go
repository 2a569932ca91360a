package runner

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/capture"
	"github.com/boxwright/boxwright/core"
)

// Bounds of what a run may ask for.
const (
	MaxCode  = 16 << 20 // bytes of source
	MaxStdin = 16 << 20
	maxKept  = 640 << 10 // bytes of head, and of tail: both streams fit one message
	maxSpill = 1 << 30
	maxArgs  = 1 << 20 // bytes of arguments and of environment
	maxID    = 200
)

// check refuses what cannot be run, with a sentence for whoever asked.
func check(spec core.RunSpec) error {
	switch {
	case spec.ID == "" || len(spec.ID) > maxID:
		return core.Errorf(core.ErrInvalid, "a run needs an id of at most %d bytes", maxID)
	case spec.Timeout < 0:
		return core.Errorf(core.ErrInvalid, "the timeout is negative")
	}
	if err := checkProgram(spec); err != nil {
		return err
	}
	return checkStrings(spec)
}

func checkProgram(spec core.RunSpec) error {
	switch {
	case spec.Code == nil && len(spec.Argv) == 0:
		return core.Errorf(core.ErrInvalid, "a run has neither code nor a command")
	case len(spec.Argv) == 0 && bytes.IndexByte(spec.Code, 0) >= 0:
		return core.Errorf(core.ErrInvalid, "the code contains a NUL byte").
			WithHint("write binary data as escapes, such as \\x00")
	case spec.Session && len(spec.Argv) > 0:
		return core.Errorf(core.ErrInvalid, "only Python code runs in a session's interpreter")
	case len(spec.Argv) > 0 && spec.Argv[0] == "":
		return core.Errorf(core.ErrInvalid, "the command is empty")
	case spec.CodeFile != "" || len(spec.Argv) > 0 && spec.Code != nil:
		return checkCodeFile(spec)
	}
	return nil
}

func checkStrings(spec core.RunSpec) error {
	size := 0
	texts := append(slices.Collect(maps.Values(spec.Env)), spec.Argv...)
	for name := range spec.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return core.Errorf(core.ErrInvalid, "%q cannot be the name of an environment variable", name)
		}
		size += len(name)
	}
	for _, text := range append(append(texts, spec.PythonPath...), spec.Dir) {
		if strings.ContainsRune(text, 0) {
			return core.Errorf(core.ErrInvalid, "an argument, a folder or an environment variable contains a NUL byte")
		}
		if size += len(text); size > maxArgs {
			return core.Errorf(core.ErrInvalid, "arguments and environment are larger than %d bytes", maxArgs).
				WithHint("pass large data on stdin or in a file")
		}
	}
	return nil
}

func limits(o core.OutputLimits) capture.Limits {
	clamp := func(n, most int64) int64 { return max(0, min(n, most)) }
	return capture.Limits{Head: clamp(o.Head, maxKept), Tail: clamp(o.Tail, maxKept), Spill: clamp(o.Spill, maxSpill)}
}
