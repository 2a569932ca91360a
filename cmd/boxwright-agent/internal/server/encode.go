package server

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

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
		Session:    s.GetSession(),
		Keep:       s.GetKeep(),
		CodeFile:   s.GetCodeFile(),
		OpenStdin:  s.GetOpenStdin(),
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
		StateLost:  e.StateLost,
	}
	exit.Files = encodeFiles(e.Files)
	for _, warning := range e.Warnings {
		exit.Warnings = append(exit.Warnings, strings.ToValidUTF8(warning, "?"))
	}
	encodeDisplays(exit, e.Displays)
	return exit
}

// maxExit is the size of an exit in bytes that is sure to fit one message of ttrpc's, which has 4 MB at the most.
const maxExit = 4<<20 - 64<<10

// encodeDisplays adds what there is room for: what was asked for of a run's output comes first.
func encodeDisplays(exit *guestv1.Exit, displays []core.Display) {
	const perDisplay = 64 // bytes of its type, and of what stands around it
	room, dropped := maxExit-proto.Size(exit), 0
	for _, d := range displays {
		size := len(d.Data) + perDisplay
		if size > room {
			dropped++
			continue
		}
		room -= size
		exit.Displays = append(exit.Displays, &guestv1.Display{MimeType: d.MIMEType, Data: d.Data})
	}
	if dropped > 0 {
		exit.Warnings = append(exit.Warnings, fmt.Sprintf("%d displayed values are too large to be returned with the output", dropped))
	}
}

func encodeFiles(files []core.FileInfo) (sent []*guestv1.FileInfo) {
	for _, file := range files {
		sent = append(sent, &guestv1.FileInfo{Path: []byte(file.Path), Size: file.Size})
	}
	return sent
}

func encodeEntries(entries []core.FileEntry) (sent []*guestv1.FileEntry) {
	for _, e := range entries {
		sent = append(sent, &guestv1.FileEntry{
			Path: []byte(e.Path), Size: e.Size, Kind: string(e.Kind), ModifiedUs: e.Modified.UnixMicro(),
		})
	}
	return sent
}

func encodeVariables(variables []core.Variable) (sent []*guestv1.Variable) {
	for _, v := range variables {
		sent = append(sent, &guestv1.Variable{Name: v.Name, Type: v.Type, Shape: v.Shape, Size: v.Size, Value: v.Value})
	}
	return sent
}

func encodeOutput(o core.Output) *guestv1.Output {
	return &guestv1.Output{Head: o.Head, Tail: o.Tail, Total: o.Total, Spilled: o.Spilled}
}
