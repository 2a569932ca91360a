package sdk

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/boxwright/boxwright/core"
	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
)

func TestRoundTrips(t *testing.T) {
	// Logger is not a part of the message.
	roundTrip(t, func(c Config) Config { return configFromProto(configToProto(c)) }, "Logger")
	roundTrip(t, func(i core.Info) core.Info { return infoFromProto(infoToProto(i)) })
	roundTrip(t, func(p core.Progress) core.Progress { return progressFromProto(progressToProto(p)) })
	roundTrip(t, func(i core.Image) core.Image { return imageFromProto(imageToProto(i)) })
	roundTrip(t, func(s core.BoxSpec) core.BoxSpec { return specFromProto(specToProto(s)) })
	roundTrip(t, func(b core.Box) core.Box { return boxFromProto(boxToProto(b)) })
	roundTrip(t, func(v core.Volume) core.Volume { return volumeFromProto(volumeToProto(v)) })
	roundTrip(t, func(i core.Inventory) core.Inventory { return inventoryFromProto(inventoryToProto(i)) })
}

func roundTrip[T any](t *testing.T, there func(T) T, except ...string) {
	t.Helper()
	var zero, full T
	filler{except: except}.fill(t, reflect.ValueOf(&full).Elem())
	if got := there(full); !reflect.DeepEqual(got, full) {
		t.Errorf("%T came back as\n%+v, was\n%+v", full, got, full)
	}
	if got := there(zero); !sameEmpty(got, zero) {
		t.Errorf("the zero %T came back as %+v", zero, got)
	}
}

// sameEmpty takes an empty map for a missing one: protobuf does.
func sameEmpty(a, b any) bool {
	return reflect.DeepEqual(a, b) || isEmptyInfo(a)
}

func isEmptyInfo(v any) bool {
	info, ok := v.(core.Info)
	if !ok || len(info.Limits) > 0 {
		return false
	}
	info.Limits = nil
	return reflect.DeepEqual(info, core.Info{})
}

// filler sets every field to something that is not zero and not like its neighbour.
type filler struct{ except []string }

func (f filler) fill(t *testing.T, v reflect.Value) {
	t.Helper()
	f.at(t, v, "x")
}

func (f filler) at(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, len(path), 600, time.UTC)))
		return
	case nil:
		t.Fatalf("%s is an interface", path)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(len(path)) + 1000)
	case reflect.Float64:
		v.SetFloat(float64(len(path)) + 0.5)
	case reflect.Uint8:
		v.SetUint(uint64(len(path)))
	default:
		f.inner(t, v, path)
	}
}

// inner fills what has parts.
func (f filler) inner(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.at(t, v.Index(0), path+"[0]")
		f.at(t, v.Index(1), path+"[1].")
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"k", "l"} {
			value := reflect.New(v.Type().Elem()).Elem()
			f.at(t, value, path+key)
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if !slices.Contains(f.except, field.Name) {
				f.at(t, value, path+"."+field.Name)
			}
		}
	default:
		t.Fatalf("%s: cannot fill a %s", path, v.Kind())
	}
}

// TestNoFieldOfTheWireIsForgotten fills core's structs and looks for a field of the message that
// stays empty: a message with more fields than core converts would pass a round trip.
func TestNoFieldOfTheWireIsForgotten(t *testing.T) {
	var cfg Config
	var info core.Info
	var spec core.BoxSpec
	var have core.Inventory
	var image core.Image
	var progress core.Progress
	for _, v := range []any{&cfg, &info, &spec, &have, &image, &progress} {
		filler{except: []string{"Logger"}}.fill(t, reflect.ValueOf(v).Elem())
	}
	for _, m := range []protoreflect.ProtoMessage{
		configToProto(cfg), infoToProto(info), specToProto(spec), inventoryToProto(have), imageToProto(image), progressToProto(progress),
	} {
		isFull(t, m.ProtoReflect())
	}
	_ = backendv1.File_boxwright_backend_v1_backend_proto // the messages' home
}

func isFull(t *testing.T, m protoreflect.Message) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			t.Errorf("%s is empty", field.FullName())
			continue
		}
		if field.Message() == nil || field.IsMap() || field.Message().FullName() == "google.protobuf.Timestamp" {
			continue
		}
		if field.IsList() {
			isFull(t, m.Get(field).List().Get(0).Message())
		} else {
			isFull(t, m.Get(field).Message())
		}
	}
}
