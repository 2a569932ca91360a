package guest

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

// fillMessage sets every field of m, and of what is in it, to something that is not its default.
func fillMessage(t *testing.T, m protoreflect.Message) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.IsList() {
			list := m.Mutable(field).List()
			list.Append(fullValue(t, field, list.NewElement))
			continue
		}
		m.Set(field, fullValue(t, field, func() protoreflect.Value { return m.NewField(field) }))
	}
}

func fullValue(t *testing.T, field protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
	t.Helper()
	switch field.Kind() { //nolint:exhaustive // the kinds that there are
	case protoreflect.StringKind:
		if field.Name() == "mime_type" {
			return protoreflect.ValueOfString("text/plain")
		}
		return protoreflect.ValueOfString("SIGTERM")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("abc"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.MessageKind:
		value := empty()
		fillMessage(t, value.Message())
		return value
	}
	t.Fatalf("no value for %s", field.FullName())
	return protoreflect.Value{}
}

// checkSet reports every field of a struct, and of what is in it, that is zero.
func checkSet(t *testing.T, v reflect.Value) {
	t.Helper()
	for field, value := range v.Fields() {
		if value.IsZero() {
			t.Errorf("%s.%s is not set", v.Type(), field.Name)
			continue
		}
		if value.Kind() == reflect.Slice {
			value = value.Index(0)
		}
		if value.Kind() == reflect.Struct {
			checkSet(t, value)
		}
	}
}

// TestExitIsTakenWhole: the other half, that all of it is sent, is the agent's test.
func TestExitIsTakenWhole(t *testing.T) {
	var sent guestv1.Exit
	fillMessage(t, sent.ProtoReflect())
	got := decodeExit(&sent, core.OutputLimits{Head: 100, Tail: 100, Spill: 100})
	checkSet(t, reflect.ValueOf(got))

	output := core.Output{Head: []byte("abc"), Tail: []byte("abc"), Total: 7, Spilled: 7}
	want := core.Exit{
		Code: 7, Signal: "SIGTERM", TimedOut: true, Cancelled: true, OOMKilled: true, Stdout: output, Stderr: output,
		Files: []core.FileInfo{{Path: "abc", Size: 7}}, Warnings: []string{"SIGTERM"}, Duration: 7 * time.Microsecond,
		Displays: []core.Display{{MIMEType: "text/plain", Data: []byte("abc")}}, StateLost: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSpecIsSentWhole: code and stdin themselves follow in pieces.
func TestSpecIsSentWhole(t *testing.T) {
	spec := core.RunSpec{
		ID: "id", Code: []byte("c"), Argv: []string{"a"}, Stdin: []byte("i"), Dir: "d", Env: map[string]string{"k": "v"},
		PythonPath: []string{"p"}, Timeout: 3 * time.Millisecond, Output: core.OutputLimits{Head: 4, Tail: 5, Spill: 6}, Stream: true,
		Session: true, Keep: true, CodeFile: "{file}", OpenStdin: true,
	}
	checkSet(t, reflect.ValueOf(spec))
	sent := encodeSpec(spec)
	fields := sent.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); !sent.ProtoReflect().Has(field) {
			t.Errorf("%s is not set", field.FullName())
		}
	}
	want := &guestv1.RunSpec{
		Id: "id", Python: true, Argv: []string{"a"}, HasStdin: true, Dir: "d", Env: map[string]string{"k": "v"},
		PythonPath: []string{"p"}, TimeoutMs: 3, OutputHead: 4, OutputTail: 5, OutputSpill: 6, Stream: true,
		Session: true, Keep: true, CodeFile: "{file}", OpenStdin: true,
	}
	if !proto.Equal(sent, want) {
		t.Errorf("got %v, want %v", sent, want)
	}
}
