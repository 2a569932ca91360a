package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestLinks: over HTTP the files of a run come as links that need no key, and not as paths of the server's machine.
func TestLinks(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	p := launch(t, setup{transport: overStreamable}, nil)
	w := &wire{process: p, inbox: make(chan message, 100)}
	w.http = dialHTTP(t, p, overStreamable, w.take)
	w.handshake(t)
	w.sendf(t, "%s", callLine(t, 1, program("open('größe 1.html', 'w').write('<script>0123456789</script>')")))
	r := w.await(t, "1").result(t)
	if len(r.Files) != 1 || !strings.HasPrefix(r.Files[0].URL, w.http.url+"/files/") || strings.Contains(r.text, p.dir) {
		t.Fatalf("got %s", r.raw)
	}
	link := r.Files[0].URL
	for name, c := range map[string]struct {
		method, link, part string
		status             int
		body               string
	}{
		"whole":   {"GET", link, "", http.StatusOK, "<script>0123456789</script>"},
		"head":    {"HEAD", link, "", http.StatusOK, ""},
		"range":   {"GET", link, "bytes=8-11", http.StatusPartialContent, "0123"},
		"changed": {"GET", link[:len(link)-1] + map[bool]string{true: "B", false: "A"}[link[len(link)-1] == 'A'], "", http.StatusForbidden, "ask for a new link"},
		"no sum":  {"GET", link[:strings.IndexByte(link, '?')], "", http.StatusForbidden, "ask for a new link"},
		"put":     {"PUT", strings.Replace(link, "/files/", "/uploads/", 1), "", http.StatusForbidden, "ask for a new link"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, c.link, bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		if c.part != "" {
			request.Header.Set("Range", c.part)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != c.status || !strings.Contains(string(body), c.body) || c.status < 300 && string(body) != c.body {
			t.Errorf("%s: %s %q, %v", name, response.Status, body, err)
		}
		if h := response.Header; h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %v", name, h)
		}
	}
}
