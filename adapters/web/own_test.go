package web

import (
	"context"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestHealth(t *testing.T) {
	o := testOptions()
	var trouble error
	o.Ready = func(context.Context) error { return trouble }
	s := testServer(o)
	probe := func(path string, status int, text string) {
		t.Helper()
		if w := ask(s, "GET", path, "", "Authorization: "); w.Code != status || strings.TrimSpace(w.Body.String()) != text {
			t.Errorf("%s: %d %s, want %d %s", path, w.Code, w.Body, status, text)
		}
	}
	probe("/healthz", 200, `{"status":"ok"}`)
	probe("/readyz", 200, `{"status":"ready"}`)
	trouble = core.Errorf(core.ErrUnavailable, "/var/run/docker.sock refuses")
	probe("/readyz", 503, `{"status":"no engine"}`)
	probe("/healthz", 200, `{"status":"ok"}`)
	s.isDraining.Store(true)
	probe("/readyz", 503, `{"status":"ending"}`)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/": 403, "/mcp": 403, "/healthz/x": 403} {
		if w := ask(s, "GET", path, "", "Host: 192.0.2.1:8181"); w.Code != want {
			t.Errorf("%s by another name: %d, want %d", path, w.Code, want)
		}
	}
}
