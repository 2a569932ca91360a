package mcphttp

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/boxwright/boxwright/core"
)

// A body that was read is let go of, and one for which there was no room is said so.
func TestBodiesAreLetGoOf(t *testing.T) {
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(initializeBody))
	if _, err := readMessage(r); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if held := r.Body.(*passing).left.Size(); string(text) != initializeBody || err != nil || held != 0 {
		t.Errorf("%s, %v; %d bytes are held", text, err, held)
	}
	full := httptest.NewRequest("POST", "/mcp", iotest.ErrReader(core.Errorf(core.ErrUnavailable, "no room").WithRetryAfter(time.Second)))
	_, err = readMessage(full)
	w := httptest.NewRecorder()
	if refuse(w, err); w.Code != 503 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d after %q: %v", w.Code, w.Header().Get("Retry-After"), err)
	}
}
