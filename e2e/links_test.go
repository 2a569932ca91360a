package e2e

import (
	"archive/zip"
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
	w := connect(t, setup{transport: overStreamable})
	w.handshake(t)
	w.sendf(t, "%s", callLine(t, 1, program("open('größe 1.html', 'w').write('<script>0123456789</script>')")))
	r := w.await(t, "1").result(t)
	if len(r.Files) != 1 || !strings.HasPrefix(r.Files[0].URL, w.http.url+"/files/") || strings.Contains(r.text, w.dir) {
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
		status, h, body := follow(t, c.method, c.link, c.part, "")
		if status != c.status || !strings.Contains(body, c.body) || c.status < 300 && body != c.body {
			t.Errorf("%s: %d %q", name, status, body)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %v", name, h)
		}
	}
}

// TestLinksToAll: several files come as one archive, and a file goes into a sandbox, by links too. What was used is
// there to be read.
func TestLinksToAll(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	p := launch(t, setup{transport: overStreamable, config: wantsKeys}, nil)
	u := p.tenant(t, "ann")
	r := u.use(t, tool, args{"code": "for name in 'ab': open(name, 'w').write(name * 3)"})
	_, _, body := follow(t, "GET", r.ArchiveURL, "", "")
	archive, err := zip.NewReader(strings.NewReader(body), int64(len(body)))
	if err != nil || len(archive.File) != 2 || archive.File[1].Name != "b" || archive.File[1].UncompressedSize64 != 3 {
		t.Errorf("the archive at %q is %.200q, %v", r.ArchiveURL, body, err)
	}

	sandbox := u.use(t, "sandbox_initialize", args{}).SandboxID
	offer := u.use(t, "write_file", args{"sandbox_id": sandbox, "path": "in/größe.txt"})
	if status, _, body := follow(t, "PUT", offer.UploadURL, "", "hello"); status >= 300 {
		t.Errorf("the upload to %q: %d %s", offer.UploadURL, status, body)
	}
	if r := u.use(t, "run_python", args{"sandbox_id": sandbox, "code": "open('in/größe.txt').read()"}); r.Result != "'hello'" {
		t.Errorf("the sandbox has %s", r.raw)
	}
	if r := u.use(t, "write_file", args{"sandbox_id": sandbox, "path": "../x"}); r.Error.Type != "invalid" {
		t.Errorf("an address for another place: %s", r.raw)
	}
	if r := u.use(t, "write_file", args{"sandbox_id": "work", "path": "x"}); r.Error.Type != "not_found" {
		t.Errorf("an address for no sandbox: %s", r.raw)
	}

	u.sendf(t, `{"jsonrpc":"2.0","id":"usage","method":"resources/read","params":{"uri":"boxwright://usage"}}`)
	if text := string(u.await(t, `"usage"`).line); !strings.Contains(text, `\"quota\": \"files\",\n    \"used\": 6`) || !strings.Contains(text, `\"quota\": \"boxes\",\n    \"used\": 1`) {
		t.Errorf("used: %s", text)
	}
}

// follow makes a request to a link, for a part of what is there unless that is "".
func follow(t *testing.T, method, link, part, content string) (status int, header http.Header, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, link, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if part != "" {
		request.Header.Set("Range", part)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(all)
}
