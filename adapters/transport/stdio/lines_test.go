package stdio

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

// TestLinesAreBounded: one that is too long is not handed on, those around it are, however they come in.
func TestLinesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 11)
	for name, c := range map[string]struct {
		in, out string
		refused int
	}{
		"nothing":            {"", "", 0},
		"short ones":         {"a\nb\n", "a\nb\n", 0},
		"no end":             {"a\nb", "a\nb", 0},
		"just short enough":  {long[:9] + "\n" + long[:10], long[:9] + "\n" + long[:10], 0},
		"too long":           {"a\n" + long + "\nb\n", "a\nb\n", 1},
		"by its end alone":   {long[:10] + "\n", "", 1},
		"too long, no end":   {"a\n" + long, "a\n", 1},
		"one after another":  {long + "\n" + long + long + "\n\n", "\n", 2},
		"longer than a read": {strings.Repeat(long, 1<<13) + "\nb\n", "b\n", 1},
	} {
		for how, in := range map[string]io.Reader{
			"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
			"with the end": iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			refused := 0
			got, err := io.ReadAll(&lines{in: in, most: 10, refuse: func([]byte, []byte) { refused++ }})
			if err != nil || string(got) != c.out || refused != c.refused {
				t.Errorf("%s, %s: got %q, %d refused, %v; want %q, %d", name, how, got, refused, err, c.out, c.refused)
			}
		}
	}
}

// TestIDOfALongLine: it is found at the beginning or at the end, and never inside.
func TestIDOfALongLine(t *testing.T) {
	long := strings.Repeat(`{\"id\":8}`, 1000)
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"code":"` + long + `"}}`:        `7`,
		`{"id":"a\"b","params":{"id":5,"code":"` + long + `"}}`:                         `"a\"b"`,
		`{"method":"m","params":{"code":"` + long + `"},"jsonrpc":"2.0","id":7}`:        `7`,
		`{"method":"m","params":{"code":"` + long + `"}, "id" : "x-1" } ` + "\r":        `"x-1"`,
		`{"method":"m","params":{"code":"` + long + `","id":5}}`:                        `null`,
		`{"method":"m","params":{"id":5},"x":"` + long + `"}`:                           `null`,
		`{"id":{"id":5},"x":"` + long + `"}`:                                            `null`,
		`[{"id":5,"x":"` + long + `"}]`:                                                 `null`,
		long + long:                                                                     `null`,
		`{"id":"` + long + `"}`:                                                         `null`,
		`{"method":"notifications/x","params":{"code":"` + long + `"},"jsonrpc":"2.0"}`: `null`,
	} {
		var got string
		in := &lines{in: strings.NewReader(line + "\n"), most: 2000, refuse: func(head, tail []byte) { got = string(idOf(head, tail)) }}
		if _, err := io.ReadAll(in); err != nil || got != want {
			t.Errorf("%.60q…: got %q, %v, want %q", line, got, err, want)
		}
	}
}

// TestALongMessageIsAnAnswer: those before and after it are answered too.
func TestALongMessageIsAnAnswer(t *testing.T) {
	s, _, _, _ := slow(t)
	r, w := pipe(t)
	in := io.MultiReader(
		strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"`),
		io.LimitReader(endless{}, maxLine), strings.NewReader(`"}}`+"\n"+`{"jsonrpc":"2.0","id":4,"method":"ping"}`+"\n"),
	)
	if err := Serve(t.Context(), s, in, w, options(new(atomic.Int64))); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var got []string
	for said := bufio.NewScanner(r); said.Scan(); {
		got = append(got, said.Text())
	}
	slices.Sort(got)
	want := []string{
		`{"jsonrpc":"2.0","id":2,"result":{}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"the message is longer than 64MiB; write big files in parts"}}`,
		`{"jsonrpc":"2.0","id":4,"result":{}}`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// endless is a text of one letter.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }
