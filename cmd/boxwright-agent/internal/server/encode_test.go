package server

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

// fill sets everything in v to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("SIGTERM")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7 * int64(time.Millisecond))
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	default:
		panic("no value for a " + v.Type().String())
	}
}

// checkFull reports every field of m, and of what is in it, that is not set.
func checkFull(t *testing.T, m protoreflect.Message) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			t.Errorf("%s is not set", field.FullName())
			continue
		}
		switch value := m.Get(field); {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			checkFull(t, value.List().Get(0).Message())
		default:
			checkFull(t, value.Message())
		}
	}
}

// TestExitIsSentWhole: the other half, that all of it is taken, is the host's test.
func TestExitIsSentWhole(t *testing.T) {
	var exit core.Exit
	fill(reflect.ValueOf(&exit).Elem())
	sent := encodeExit(exit)
	checkFull(t, sent.ProtoReflect())

	want := &guestv1.Exit{
		Code: int32(exit.Code), Signal: "SIGTERM", TimedOut: true, Cancelled: true, OomKilled: true, DurationUs: 7000,
		Files: []*guestv1.FileInfo{{Path: []byte("SIGTERM"), Size: exit.Files[0].Size}}, Warnings: []string{"SIGTERM"},
		Displays: []*guestv1.Display{{MimeType: "SIGTERM", Data: []byte{7}}}, StateLost: true,
		Stdout: &guestv1.Output{Head: []byte{7}, Tail: []byte{7}, Total: exit.Stdout.Total, Spilled: exit.Stdout.Spilled},
	}
	want.Stderr = want.Stdout
	if !proto.Equal(sent, want) {
		t.Errorf("got %v, want %v", sent, want)
	}
}

// TestDisplaysFitTheMessage: what was printed comes first.
func TestDisplaysFitTheMessage(t *testing.T) {
	large := make([]byte, 640<<10)
	stream := core.Output{Head: large, Tail: large}
	sent := encodeExit(core.Exit{Stdout: stream, Stderr: stream, Displays: []core.Display{
		{MIMEType: "image/png", Data: make([]byte, 2<<20)}, {MIMEType: "text/plain", Data: []byte("1")},
	}})
	if len(sent.GetDisplays()) != 1 || len(sent.GetWarnings()) != 1 || proto.Size(sent) > 4<<20 {
		t.Errorf("%d displays, %q, %d bytes", len(sent.GetDisplays()), sent.GetWarnings(), proto.Size(sent))
	}
}

// TestSpecIsTakenWhole: every field of a spec that is sent means something to a run.
func TestSpecIsTakenWhole(t *testing.T) {
	sent := &guestv1.RunSpec{
		Id: "id", Python: true, Argv: []string{"a"}, HasStdin: true, Dir: "d", Env: map[string]string{"k": "v"},
		PythonPath: []string{"p"}, TimeoutMs: 3, OutputHead: 4, OutputTail: 5, OutputSpill: 6, Stream: true,
		Session: true, Keep: true, CodeFile: "{file}", OpenStdin: true,
	}
	checkFull(t, sent.ProtoReflect())
	got := decodeSpec(sent)
	want := core.RunSpec{
		ID: "id", Code: []byte{}, Argv: []string{"a"}, Dir: "d", Env: map[string]string{"k": "v"}, PythonPath: []string{"p"},
		Timeout: 3 * time.Millisecond, Output: core.OutputLimits{Head: 4, Tail: 5, Spill: 6}, Stream: true,
		Session: true, Keep: true, CodeFile: "{file}", OpenStdin: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	checkSet(t, reflect.ValueOf(got), "Stdin") // comes after the spec, in pieces
}

// checkSet reports every field of a struct that is zero, but for those that are named.
func checkSet(t *testing.T, v reflect.Value, except ...string) {
	t.Helper()
	spared := map[string]bool{}
	for _, name := range except {
		spared[name] = true
	}
	for field, value := range v.Fields() {
		switch {
		case spared[field.Name]:
		case value.IsZero():
			t.Errorf("%s.%s is not set", v.Type(), field.Name)
		case value.Kind() == reflect.Struct:
			checkSet(t, value)
		}
	}
}
