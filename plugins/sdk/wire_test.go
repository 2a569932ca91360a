package sdk

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestOldBytesAreUnderstood reads messages as an older release sent them: a field whose number
// or type changes breaks every plugin that is out there.
func TestOldBytesAreUnderstood(t *testing.T) {
	understood(t, "configure", configToProto, configFromProto, &backendv1.ConfigureRequest{})
	understood(t, "info", infoToProto, infoFromProto, &backendv1.InfoResponse{})
	understood(t, "progress", progressToProto, progressFromProto, &backendv1.Progress{})
	understood(t, "image", imageToProto, imageFromProto, &backendv1.Image{})
	understood(t, "create", specToProto, specFromProto, &backendv1.CreateRequest{})
	understood(t, "list", inventoryToProto, inventoryFromProto, &backendv1.ListResponse{})
	understood(t, "volume", volumeToProto, volumeFromProto, &backendv1.Volume{})
}

func understood[T any, M proto.Message](t *testing.T, name string, to func(T) M, from func(M) T, empty M) {
	t.Helper()
	var full T
	filler{except: []string{"Logger"}}.fill(t, reflect.ValueOf(&full).Elem())
	path := filepath.Join("..", "..", "testdata", "wire", "v1", name+".hex")
	if *update {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(to(full))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, lines(raw), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(string(bytes.ReplaceAll(text, []byte("\n"), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(raw, empty); err != nil {
		t.Fatal(err)
	}
	if got := from(empty); !reflect.DeepEqual(got, full) {
		t.Errorf("%s: old bytes are read as\n%+v, want\n%+v", name, got, full)
	}
}

// lines is raw in hexadecimal, 32 bytes a line.
func lines(raw []byte) []byte {
	var out []byte
	for len(raw) > 0 {
		n := min(32, len(raw))
		out = append(hex.AppendEncode(out, raw[:n]), '\n')
		raw = raw[n:]
	}
	return out
}
