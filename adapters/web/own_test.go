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
	if w := ask(s, "GET", "/healthz", "", "Host: evil.example"); w.Code != 403 {
		t.Errorf("by another name: %d", w.Code)
	}
}
