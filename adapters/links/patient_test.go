package links

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines is an answer that notes those of writing, and how much is written at a time.
type deadlines struct {
	*httptest.ResponseRecorder
	set   []time.Time
	parts []int64
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

func (d *deadlines) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(d.ResponseRecorder, from)
	d.parts = append(d.parts, n)
	return n, err
}

// Each part has its time, and what comes next on the connection is not bound by that.
func TestPartsHaveADeadline(t *testing.T) {
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w, end := patient(d)
	content := bytes.Repeat([]byte("x"), 2*writePart+1)
	if n, err := io.CopyN(w, bytes.NewReader(content), int64(len(content))); n != int64(len(content)) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if len(d.parts) != 3 || len(d.set) != 3 || d.set[0].IsZero() || d.set[2].IsZero() {
		t.Errorf("parts of %v with deadlines %v", d.parts, d.set)
	}
	if end(); !d.Flushed || !d.set[len(d.set)-1].IsZero() {
		t.Errorf("at the end deadlines are %v", d.set)
	}
}
