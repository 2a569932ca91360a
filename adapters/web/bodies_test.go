package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// unsized hides how long a body is.
type unsized struct{ io.Reader }

// post sends a body by hand, so that its length may be unknown.
func post(s http.Handler, path, key string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, body)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", key)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// All bodies that are held have room for so much only, and each sender for its share.
func TestBodiesInFlightAreBounded(t *testing.T) {
	var s *Server
	within := func() {} // what happens while the first request is under way
	answers := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); core.KindOf(err) == core.ErrUnavailable {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		do := within
		within = func() {}
		do()
	}
	s = New(testOptions(), Route{Pattern: "/mcp", Handler: http.HandlerFunc(answers)},
		Route{Pattern: "/stream", Handler: http.HandlerFunc(answers), Streamed: true})
	s.bodies.most, s.bodies.share = 150, 100
	long, half := strings.Repeat("x", 80), strings.Repeat("x", 40)
	within = func() {
		for name, c := range map[string]struct {
			path, key string
			body      io.Reader
			status    int
		}{
			"more than a share":              {"/mcp", "a-key", strings.NewReader(half), 503},
			"more than a share, untold":      {"/mcp", "a-key", unsized{strings.NewReader(half)}, 503},
			"another's":                      {"/mcp", "b-key", strings.NewReader(half), 200},
			"another's, untold":              {"/mcp", "b-key", unsized{strings.NewReader(half)}, 200},
			"another's, more than there is":  {"/mcp", "b-key", strings.NewReader(long), 503},
			"what the handler does not hold": {"/stream", "a-key", strings.NewReader(long), 200},
			"nothing":                        {"/mcp", "a-key", http.NoBody, 200},
		} {
			w := post(s, c.path, c.key, c.body)
			if w.Code != c.status {
				t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.status)
			}
			if after := w.Header().Get("Retry-After"); c.status == 503 && strings.Contains(name, "untold") == (after == "3") {
				t.Errorf("%s: Retry-After %q", name, after)
			}
		}
	}
	if w := post(s, "/mcp", "a-key", strings.NewReader(long)); w.Code != 200 {
		t.Errorf("the first: %d %s", w.Code, w.Body)
	}
	if s.bodies.all != 0 || len(s.bodies.of) != 0 {
		t.Errorf("afterwards %d bytes are held, of %v", s.bodies.all, s.bodies.of)
	}
}

func TestTheLongestBodyHasRoom(t *testing.T) {
	for _, limit := range []int64{1, maxBodiesOfOne + 1, maxBodies + 1} {
		o := testOptions()
		o.BodyLimit = limit
		if err := newBodies(o).take("ann", limit); err != nil {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
}

// deadlines is a connection that notes those of reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A body that stops is given up, and a long call is not ended by the deadline of its body. The last one is of what
// nobody read.
func TestBodiesHaveADeadline(t *testing.T) {
	s := testServer(testOptions())
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader("{}"))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", "a-key")
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	if s.ServeHTTP(w, r); w.Code != 200 || len(w.set) < 3 || w.set[0].IsZero() || !w.set[len(w.set)-2].IsZero() {
		t.Errorf("%d with deadlines %v", w.Code, w.set)
	}
}

// What nobody reads of a body holds nothing.
func TestUnreadBodiesHaveADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		host, path string
		status     int
	}{
		"a wrong name": {"evil.example", "/mcp", 403}, "no key": {"localhost", "/mcp", 401}, "nothing there": {"localhost", "/nowhere", 404},
	} {
		r := httptest.NewRequest("POST", c.path, strings.NewReader("{}"))
		r.Host = c.host
		r.Header.Set("Content-Type", "application/json")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		if testServer(testOptions()).ServeHTTP(w, r); w.Code != c.status || len(w.set) == 0 || w.set[len(w.set)-1].IsZero() {
			t.Errorf("%s: %d with deadlines %v", name, w.Code, w.set)
		}
		if refused := c.status != 404; refused != (w.Header().Get("Connection") == "close") {
			t.Errorf("%s: Connection: %q", name, w.Header().Get("Connection"))
		}
	}
}
