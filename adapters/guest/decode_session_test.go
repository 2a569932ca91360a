package guest

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

const pngHead = "\x89PNG\r\n\x1a\n"

func TestHonestDisplaysAreKept(t *testing.T) {
	var sent []*guestv1.Display
	want := []core.Display{
		{MIMEType: "text/plain", Data: []byte("1")},
		{MIMEType: "text/html", Data: []byte("<b>1</b>")},
		{MIMEType: "text/markdown", Data: []byte("*1*")},
		{MIMEType: "image/svg+xml", Data: []byte("<svg/>")},
		{MIMEType: "image/png", Data: []byte(pngHead + "…")},
		{MIMEType: "image/jpeg", Data: []byte("\xff\xd8\xff…")},
		{MIMEType: "application/json", Data: []byte(`{"a": 1}`)},
	}
	for _, d := range want {
		sent = append(sent, &guestv1.Display{MimeType: d.MIMEType, Data: d.Data})
	}
	got := decodeExit(&guestv1.Exit{Displays: sent, StateLost: true}, asked())
	if !reflect.DeepEqual(got.Displays, want) || !got.StateLost || len(got.Warnings) > 0 {
		t.Errorf("got %+v", got)
	}
}

func TestHostileDisplaysAreDropped(t *testing.T) {
	e := &guestv1.Exit{Displays: []*guestv1.Display{
		{MimeType: "text/x-shellscript", Data: []byte("rm")},
		{MimeType: "image/png", Data: []byte("<script>")},
		{MimeType: "application/json", Data: []byte("{")},
		{Data: []byte("x")},
		{MimeType: "image/jpeg"},
		{MimeType: "text/html", Data: make([]byte, maxDisplayBytes+1)},
		{MimeType: "text/plain", Data: []byte("a\xff")},
	}}
	got := decodeExit(e, asked())
	if len(got.Displays) != 1 || string(got.Displays[0].Data) != "a?" || !strings.HasPrefix(got.Warnings[0], "6 displayed values") {
		t.Errorf("got %+v", got)
	}
	for range 100 {
		e.Displays = append(e.Displays, &guestv1.Display{MimeType: "text/plain"})
	}
	believableDisplays(t, decodeExit(e, asked()).Displays)
}

func believableDisplays(t *testing.T, displays []core.Display) {
	t.Helper()
	size := 0
	for _, d := range displays {
		size += len(d.Data)
		switch d.MIMEType {
		case "text/plain", "text/html", "text/markdown", "image/svg+xml":
			if !utf8.Valid(d.Data) {
				t.Errorf("not text: %q", d.Data)
			}
		case "application/json":
			if !json.Valid(d.Data) {
				t.Errorf("not JSON: %q", d.Data)
			}
		case "image/png", "image/jpeg":
		default:
			t.Errorf("form: %q", d.MIMEType)
		}
	}
	if len(displays) > maxDisplays || size > 3*maxDisplayBytes { // a byte that is no text may become three
		t.Errorf("%d displays of %d bytes", len(displays), size)
	}
}

func TestVariables(t *testing.T) {
	sent := []*guestv1.Variable{
		{Name: "x", Type: "DataFrame", Shape: "3×4", Size: 9, Value: "…"},
		{Name: "x", Type: "again"},
		{Name: ""},
		{Name: "a\nb"},
		{Name: strings.Repeat("n", maxVariableText+1)},
		{Name: "y", Type: "\x1b[31m", Shape: "; rm", Size: -1, Value: strings.Repeat("ж", 1000) + "\xff"},
		{Name: "z", Size: math.MaxInt64, Shape: strings.Repeat("1×", 40) + "1"},
	}
	got := decodeVariables(sent)
	if len(got) != 3 || got[0] != (core.Variable{Name: "x", Type: "DataFrame", Shape: "3×4", Size: 9, Value: "…"}) {
		t.Errorf("got %+v", got)
	}
	if got[1].Type != " [31m" || got[1].Shape != "" || got[1].Size != 0 || got[2].Shape != "" || got[2].Size != maxVariableSize {
		t.Errorf("got %+v", got[1:])
	}
	believableVariables(t, got)
}

func believableVariables(t *testing.T, variables []core.Variable) {
	t.Helper()
	for _, v := range variables {
		for _, text := range []string{v.Name, v.Type, v.Value, v.Shape} {
			if len(text) > maxVariableText || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\n\r") {
				t.Errorf("text: %q", text)
			}
		}
		if v.Name == "" || v.Size < 0 {
			t.Errorf("variable: %+v", v)
		}
	}
	if len(variables) > maxVariables {
		t.Errorf("%d variables", len(variables))
	}
}

func FuzzVariables(f *testing.F) {
	data, err := proto.Marshal(&guestv1.VariablesResponse{Variables: []*guestv1.Variable{{Name: "x", Shape: "1×2", Size: -1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var sent guestv1.VariablesResponse
		if proto.Unmarshal(data, &sent) == nil {
			believableVariables(t, decodeVariables(sent.GetVariables()))
		}
	})
}

func TestPieces(t *testing.T) {
	got := decodePiece(&guestv1.ReadOutputResponse{Data: []byte("0123"), Total: 9, Ended: true}, 5, 3)
	want := core.OutputPiece{Data: []byte("012"), Offset: 5, Total: 9, Ended: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	for _, total := range []int64{-1, 0, math.MaxInt64} {
		p := decodePiece(&guestv1.ReadOutputResponse{Data: []byte("0123"), Total: total}, 5, 3)
		if p.Total < p.Offset+int64(len(p.Data)) || p.Total > maxOutput {
			t.Errorf("total %d became %d", total, p.Total)
		}
	}
}
