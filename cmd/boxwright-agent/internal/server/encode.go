package server

import (
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

func decodeSpec(s *guestv1.RunSpec) core.RunSpec {
	spec := core.RunSpec{
		ID:         s.GetId(),
		Argv:       s.GetArgv(),
		Dir:        s.GetDir(),
		Env:        s.GetEnv(),
		PythonPath: s.GetPythonPath(),
		Timeout:    time.Duration(s.GetTimeoutMs()) * time.Millisecond,
		Output:     core.OutputLimits{Head: s.GetOutputHead(), Tail: s.GetOutputTail(), Spill: s.GetOutputSpill()},
		Stream:     s.GetStream(),
	}
	if s.GetPython() {
		spec.Code = []byte{}
	}
	return spec
}

func encodeExit(e core.Exit) *guestv1.Exit {
	exit := &guestv1.Exit{
		Code:       int32(e.Code), //nolint:gosec // at most 255
		Signal:     e.Signal,
		TimedOut:   e.TimedOut,
		Cancelled:  e.Cancelled,
		OomKilled:  e.OOMKilled,
		Stdout:     encodeOutput(e.Stdout),
		Stderr:     encodeOutput(e.Stderr),
		DurationUs: e.Duration.Microseconds(),
	}
	for _, file := range e.Files {
		exit.Files = append(exit.Files, &guestv1.FileInfo{Path: []byte(file.Path), Size: file.Size})
	}
	for _, warning := range e.Warnings {
		exit.Warnings = append(exit.Warnings, strings.ToValidUTF8(warning, "?"))
	}
	return exit
}

func encodeOutput(o core.Output) *guestv1.Output {
	return &guestv1.Output{Head: o.Head, Tail: o.Tail, Total: o.Total, Spilled: o.Spilled}
}
