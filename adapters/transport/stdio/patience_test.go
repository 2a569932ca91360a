package stdio

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestPatienceReadsCancellationsByThemselves(t *testing.T) {
	const call, cancel = `{"method":"tools/call"}` + "\n", `{"method":"notifications/cancelled"}` + "\n"
	p := &patience{in: strings.NewReader(call + call + cancel + call + cancel + cancel + "rest")}
	var pieces []string
	for buffer := make([]byte, 1<<10); ; {
		n, err := p.Read(buffer)
		if n > 0 {
			pieces = append(pieces, string(buffer[:n]))
		}
		if err != nil {
			break
		}
	}
	want := []string{call + call, cancel, call, cancel, cancel, "rest"}
	if got := strings.Join(pieces, "|"); got != strings.Join(want, "|") {
		t.Errorf("got %s", got)
	}
	p = &patience{in: strings.NewReader(cancel)}
	began := time.Now()
	if _, err := p.Read(make([]byte, 100)); err != nil || time.Since(began) < pickUp {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestPatienceChangesNothing(t *testing.T) {
	if err := iotest.TestReader(&patience{in: iotest.OneByteReader(strings.NewReader("a\nnotifications/x\n"))}, []byte("a\nnotifications/x\n")); err != nil {
		t.Error(err)
	}
	long := bytes.Repeat([]byte("x"), 1<<20)
	got, err := io.ReadAll(&patience{in: iotest.DataErrReader(bytes.NewReader(long))})
	if err != nil || !bytes.Equal(got, long) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
