package daemon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/boxwright/boxwright/core"
)

func frame(kind byte, text string) []byte {
	header := make([]byte, frameHeader)
	header[0] = kind
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	return append(header, text...)
}

func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		sent []byte
		want string
		err  string
	}{
		"nothing":          {nil, "", ""},
		"one":              {frame(1, "hello"), "hello", ""},
		"many":             {join(frame(1, "a"), frame(1, ""), frame(1, "bc")), "abc", ""},
		"long":             {frame(1, long), long, ""},
		"stderr is apart":  {join(frame(1, "a"), frame(2, " oh no "), frame(1, "b")), "ab", "the box's agent cannot be reached: oh no"},
		"stderr is capped": {join(frame(2, long), frame(1, "b")), "b", "cannot be reached: xxx"},
		"cut header":       {frame(1, "abc")[:5], "", ""},
		"cut frame":        {frame(1, "abc")[:10], "ab", ""},
		"no frame":         {[]byte("HTTP/1.1 500 \r\n"), "", "something else than a frame"},
		"huge":             {[]byte{1, 0, 0, 0, 255, 255, 255, 255, 'x'}, "", "something else than a frame"},
		"stream 3":         {frame(3, "x"), "", "unknown stream"},
		"stdin":            {frame(0, "x"), "", "unknown stream"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{bytes.NewReader(c.sent), iotest.OneByteReader(bytes.NewReader(c.sent))} {
				f := &frameReader{r: r}
				got, err := io.ReadAll(f)
				if string(got) != c.want {
					t.Errorf("got %d bytes, want %d", len(got), len(c.want))
				}
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				if len(f.complain) > maxComplain {
					t.Errorf("%d bytes of stderr are kept", len(f.complain))
				}
			}
		})
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(join(frame(1, "hello"), frame(2, "oh"), frame(1, "")))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := &frameReader{r: bytes.NewReader(sent)}
		got, err := io.ReadAll(r)
		if len(got) > len(sent) || len(r.complain) > maxComplain {
			t.Errorf("%d bytes became %d, and %d of stderr", len(sent), len(got), len(r.complain))
		}
		var ours *core.Error
		if err != nil && !errors.As(err, &ours) {
			t.Errorf("an error without a kind: %v", err)
		}
	})
}
