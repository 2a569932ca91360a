package sessiontest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// epoch is a time with all its digits; samples count from it.
func epoch() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC) }

// strange are texts that stores stumble over.
func strange() []string {
	return []string{
		`it's "quoted" \ ; DROP TABLE sessions; --`, "a\x00b", "\xff\xfe not UTF-8 \xc3", "line\nnext\r\t\x1b[0m", "漢字 ü 🙂", " ", "%_*?[x]",
		"<&>\u2028", "null", strings.Repeat("x", 1<<20),
	}
}

func sampleSession(id string) core.Session {
	return core.Session{ID: id, Owner: "ann", Backend: "docker", Box: "box-" + id, Created: epoch(), Used: epoch(), IdleTimeout: time.Minute, MaxAge: time.Hour}
}

func sampleRun(id string) core.Run {
	return core.Run{ID: id, Owner: "ann", Server: "one", State: core.RunUnderWay, Started: epoch(), Timeout: time.Minute}
}

// ended is r with a record, after some seconds.
func ended(r core.Run, seconds int) core.Run {
	r.State, r.Ended = core.RunEnded, epoch().Add(time.Duration(seconds)*time.Second)
	r.Record = core.Record{RunID: r.ID, Status: core.StatusOK, Stdout: core.Output{Head: []byte("hello"), Total: 5}}
	return r
}

// fullSession and fullRun have something in every field, also in those that are added later.
func fullSession(id string) core.Session {
	var s core.Session
	fill(reflect.ValueOf(&s).Elem(), new(int))
	s.ID, s.Owner, s.Name = id, "ann", "it's ü"
	return s
}

func fullRun(id string) core.Run {
	var r core.Run
	fill(reflect.ValueOf(&r).Elem(), new(int))
	r.ID, r.Owner, r.State = id, "ann", core.RunEnded
	return r
}

// fill sets everything that v holds to values of which each is another.
func fill(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = epoch().Add(time.Duration(*n) * 1001 * time.Millisecond)
		return
	case *[]byte:
		*at = fmt.Appendf(nil, "\x00\xff\n%d", *n)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%d '\" \\ \x00 \xff ü", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n)<<33 + int64(*n))
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	default:
		fillMany(v, n)
	}
}

func fillMany(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, n)
			fill(value, n)
			v.SetMapIndex(key, value)
		}
	default:
		panic("no sample of a " + v.Type().String())
	}
}

// spoil changes all that v shares with its copies: what lies behind slices, maps and pointers.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
			v.Elem().SetZero()
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Map:
		v.Clear()
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return // it shares nothing
		}
		for _, field := range v.Fields() {
			spoil(field)
		}
	default: // it shares nothing
	}
}

// difference is the way to the first field in which a and b are not the same. Times are the same when they are
// one instant, and lists when both are empty.
func difference(a, b reflect.Value) (path string, differs bool) {
	if a.Kind() == reflect.Slice && a.Len()+b.Len() == 0 || a.IsValid() && reflect.DeepEqual(a.Interface(), b.Interface()) {
		return "", false
	}
	if at, isTime := reflect.TypeAssert[time.Time](a); isTime {
		other, _ := reflect.TypeAssert[time.Time](b)
		return "", !at.Equal(other)
	}
	for _, part := range parts(a, b) {
		if path, differs := difference(part.a, part.b); differs {
			return "." + part.name + path, true
		}
	}
	return "", a.Kind() != reflect.Struct
}

type part struct {
	name string
	a, b reflect.Value
}

func parts(a, b reflect.Value) (list []part) {
	switch {
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			list = append(list, part{a.Type().Field(i).Name, a.Field(i), b.Field(i)})
		}
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		list = append(list, part{"*", a.Elem(), b.Elem()})
	case a.Kind() == reflect.Slice && a.Len() == b.Len():
		for i := range a.Len() {
			list = append(list, part{fmt.Sprint(i), a.Index(i), b.Index(i)})
		}
	}
	return list
}
