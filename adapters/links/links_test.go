package links_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/links"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// site is a server of links over a store in memory.
type site struct {
	*httptest.Server
	signer *links.Signer
	now    time.Time
	store  *store
	since  time.Time // links of before are withdrawn
	put    func(r core.FileRequest, content io.Reader) error
}

// store holds whole files; everything else of the port is not asked of it.
type store struct {
	artifact.Store
	files map[string]string // by RUN/NAME
	err   error
}

type opened struct{ *strings.Reader }

func (opened) Close() error { return nil }

func (s *store) Open(_ context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	if s.err != nil {
		return nil, core.Artifact{}, s.err
	}
	content, ok := s.files[run+"/"+name]
	if !ok {
		return nil, core.Artifact{}, core.Errorf(core.ErrNotFound, "run %q has no file %q", run, name)
	}
	known := core.Artifact{Run: run, Name: name, Size: int64(len(content)), MIMEType: core.MIMETypeOf(name, []byte(content)), SHA256: "5a", Created: epoch()}
	return opened{strings.NewReader(content)}, known, nil
}

func (s *store) List(_ context.Context, run string) (list []core.Artifact, err error) {
	for key := range s.files {
		if of, name, _ := strings.Cut(key, "/"); of == run {
			list = append(list, core.Artifact{Run: run, Name: name})
		}
	}
	return list, s.err
}

func epoch() time.Time { return time.Unix(1e9, 0).UTC() }

func start(t *testing.T) *site {
	t.Helper()
	s := &site{now: epoch(), store: &store{files: map[string]string{}}}
	s.Server = httptest.NewUnstartedServer(nil)
	signer, err := links.NewSigner(bytes.Repeat([]byte{7}, 32), "http://"+s.Listener.Addr().String(), func() time.Time { return s.now })
	if err != nil {
		t.Fatal(err)
	}
	s.signer = signer
	s.Config.Handler = links.Handler(links.Options{
		Signer: signer, Store: s.store, MaxUpload: 100, Log: slog.New(slog.DiscardHandler),
		Revoked: func(context.Context, string) (time.Time, error) { return s.since, nil },
		Upload: func(_ context.Context, r core.FileRequest, content io.Reader, _ int64) error {
			return s.put(r, content)
		},
	})
	s.Start()
	t.Cleanup(s.Close)
	return s
}

type answer struct {
	*http.Response
	body string
}

func (s *site) send(t *testing.T, method, link string, body io.Reader, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, link, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

func TestFile(t *testing.T) {
	s := start(t)
	for name, shown := range map[string]string{
		"plot.png": "plot.png", "sub/it's.txt": "it's.txt", "größe 漢.csv": "größe 漢.csv", "a\r\nX: y": "a__X: y",
		`q"uo\te`: `q"uo_te`, "%2e%2e%2f?#&+": "%2e%2e%2f?#&+", "gpj.\u202egnp": "gpj._gnp", "...": "file",
	} {
		s.store.files["r1/"+name] = "content"
		got := s.send(t, "GET", s.signer.File("r1", name, time.Hour), nil)
		if got.StatusCode != 200 || got.body != "content" {
			t.Errorf("%q: %s %q", name, got.Status, got.body)
		}
		kind, params, err := mime.ParseMediaType(got.Header.Get("Content-Disposition"))
		if err != nil || kind != "attachment" || params["filename"] != shown {
			t.Errorf("%q is offered as %q %q: %v", name, kind, params, err)
		}
		if got.Header.Get("X") != "" {
			t.Errorf("%q made a header", name)
		}
	}
}

// TestHeaders: what a stranger's program wrote does not run in a browser, whatever it is.
func TestHeaders(t *testing.T) {
	s := start(t)
	s.store.files["r1/page.html"] = "<script>alert(1)</script>"
	got := s.send(t, "GET", s.signer.File("r1", "page.html", time.Hour), nil)
	for header, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Content-Disposition": "attachment; filename=page.html", "Referrer-Policy": "no-referrer", "Cache-Control": "private, no-cache",
		"Expires": epoch().Add(time.Hour).Format(http.TimeFormat), "Etag": `"5a"`, "Access-Control-Allow-Origin": "",
	} {
		if got.Header.Get(header) != want {
			t.Errorf("%s: %q, want %q", header, got.Header.Get(header), want)
		}
	}
}

func TestParts(t *testing.T) {
	s := start(t)
	s.store.files["r1/f"] = "0123456789"
	link := s.signer.File("r1", "f", time.Hour)
	for name, c := range map[string]struct {
		method  string
		headers []string
		status  int
		body    string
	}{
		"head":       {"HEAD", nil, 200, ""},
		"range":      {"GET", []string{"Range", "bytes=2-4"}, 206, "234"},
		"tail":       {"GET", []string{"Range", "bytes=-3"}, 206, "789"},
		"beyond":     {"GET", []string{"Range", "bytes=10-"}, 416, "invalid range: failed to overlap\n"},
		"no tail":    {"GET", []string{"Range", "bytes=-0"}, 416, "invalid range: failed to overlap\n"},
		"no tails":   {"GET", []string{"Range", "bytes=-0,-00"}, 416, "invalid range: failed to overlap\n"},
		"one of two": {"GET", []string{"Range", "bytes= -0, 2-4"}, 206, "234"},
		"a long one": {"GET", []string{"Range", "bytes=-03"}, 206, "789"},
		"unchanged":  {"GET", []string{"If-None-Match", `"5a"`}, 304, ""},
		"changed":    {"GET", []string{"If-Range", `"other"`, "Range", "bytes=2-4"}, 200, "0123456789"},
		"no post":    {"POST", nil, 405, "Method Not Allowed\n"},
		"no options": {"OPTIONS", nil, 405, "Method Not Allowed\n"},
	} {
		got := s.send(t, c.method, link, nil, c.headers...)
		if got.StatusCode != c.status || got.body != c.body {
			t.Errorf("%s: %s %q", name, got.Status, got.body)
		}
		if name == "head" && got.ContentLength != 10 {
			t.Errorf("head: %d bytes", got.ContentLength)
		}
	}
}

// TestForged: a link with one byte changed leads nowhere, and one for something else neither.
func TestForged(t *testing.T) {
	s := start(t)
	s.store.files["r1/f"], s.store.files["r1/g"], s.store.files["r2/f"] = "secret", "secret", "secret"
	s.put = func(core.FileRequest, io.Reader) error { t.Error("a file was put"); return nil }
	link := s.signer.File("r1", "f", time.Hour)
	for i := strings.Index(link, "/files/") + 1; i < len(link); i++ {
		for _, c := range []byte{link[i] ^ 1, 'A', '0', '%'} {
			changed := link[:i] + string(c) + link[i+1:]
			if _, err := url.Parse(changed); err != nil || changed == link {
				continue
			}
			if got := s.send(t, "GET", changed, nil); got.StatusCode == 200 || got.StatusCode >= 500 || strings.Contains(got.body, "secret") {
				t.Errorf("%s: %s", changed, got.Status)
			}
		}
	}
	query := link[strings.IndexByte(link, '?'):]
	for _, other := range []string{"/files/r1/g", "/files/r2/f", "/archives/r1", "/files/r1/f/", "/files/r1/../r1/g"} {
		if got := s.send(t, "GET", s.URL+other+query, nil); got.StatusCode == 200 {
			t.Errorf("%s: %s", other, got.Status)
		}
	}
	if got := s.send(t, "GET", link+"&owner=bob", nil); got.StatusCode != 403 {
		t.Errorf("with an owner: %s", got.Status)
	}
	if got := s.send(t, "PUT", strings.Replace(link, "/files/", "/uploads/", 1), strings.NewReader("x")); got.StatusCode != 403 {
		t.Errorf("put by a link to read: %s", got.Status)
	}
	if got := s.send(t, "GET", s.URL+"/files/r1/f", nil); got.StatusCode != 403 || !strings.Contains(got.body, "ask for a new link") {
		t.Errorf("no signature: %s %s", got.Status, got.body)
	}
}

func TestOver(t *testing.T) {
	s := start(t)
	s.store.files["r1/f"] = "content"
	link := s.signer.File("r1", "f", time.Minute)
	s.now = s.now.Add(time.Minute - time.Second)
	if got := s.send(t, "GET", link, nil); got.StatusCode != 200 {
		t.Errorf("before: %s", got.Status)
	}
	s.now = s.now.Add(time.Second)
	if got := s.send(t, "GET", link, nil); got.StatusCode != 404 || !strings.Contains(got.body, "is over since 2001-09-09T01:47:40Z") {
		t.Errorf("after: %s %s", got.Status, got.body)
	}
}

func TestWithdrawn(t *testing.T) {
	s := start(t)
	s.store.files["r1/f"] = "content"
	before := []string{s.signer.File("r1", "f", time.Hour), s.signer.Archive("r1", time.Hour)}
	s.since = s.now
	s.now = s.now.Add(time.Second)
	for _, link := range before {
		if got := s.send(t, "GET", link, nil); got.StatusCode != 404 || !strings.Contains(got.body, "was withdrawn") {
			t.Errorf("%s: %s %s", link, got.Status, got.body)
		}
	}
	if got := s.send(t, "GET", s.signer.File("r1", "f", time.Hour), nil); got.StatusCode != 200 {
		t.Errorf("a new one: %s", got.Status)
	}
}

func TestArchive(t *testing.T) {
	s := start(t)
	want := map[string]string{"plot.png": "\x89PNG", "sub/größe.txt": strings.Repeat("x", 1e6), `a\..\b`: "y"}
	for name, content := range want {
		s.store.files["r1/"+name] = content
	}
	got := s.send(t, "GET", s.signer.Archive("r1", time.Hour), nil)
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "application/zip" || len(got.body) > 1e5 {
		t.Fatalf("%s %v, %d bytes", got.Status, got.Header, len(got.body))
	}
	archive, err := zip.NewReader(strings.NewReader(got.body), int64(len(got.body)))
	if err != nil || len(archive.File) != len(want) {
		t.Fatalf("%v, %d files", err, len(archive.File))
	}
	want[`a_.._b`] = "y"
	for _, f := range archive.File {
		reader, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(reader); err != nil || string(content) != want[f.Name] {
			t.Errorf("%q: %d bytes, %v", f.Name, len(content), err)
		}
	}
	if got := s.send(t, "GET", s.signer.Archive("r2", time.Hour), nil); got.StatusCode != 404 {
		t.Errorf("no files: %s", got.Status)
	}
}

// TestBrokenArchive: a part is not taken for the whole.
func TestBrokenArchive(t *testing.T) {
	s := start(t)
	s.store.files["r1/f"] = "x"
	link := s.signer.Archive("r1", time.Hour)
	delete(s.store.files, "r1/f")
	s.store.files["r1/gone/x"] = "y"
	s.Config.Handler = links.Handler(links.Options{Signer: s.signer, Store: listing{s.store}, Log: slog.New(slog.DiscardHandler)})
	response, err := s.Client().Get(link) //nolint:noctx // it ends with the server
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("an archive without one of its files looks whole")
	}
}

// listing lists what is gone when it is opened.
type listing struct{ *store }

func (l listing) Open(context.Context, string, string) (io.ReadSeekCloser, core.Artifact, error) {
	return nil, core.Artifact{}, errors.New("gone")
}

func TestUpload(t *testing.T) {
	s := start(t)
	var got core.FileRequest
	var content string
	s.put = func(r core.FileRequest, body io.Reader) error {
		text, err := io.ReadAll(body)
		got, content = r, string(text)
		return err
	}
	link := s.signer.Upload("ann", "box", "in/größe.csv", time.Hour)
	if a := s.send(t, "PUT", link, strings.NewReader("a,b")); a.StatusCode != 204 {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if want := (core.FileRequest{Tenant: "ann", Sandbox: "box", Path: "in/größe.csv"}); got != want || content != "a,b" {
		t.Errorf("got %+v %q", got, content)
	}
	for name, body := range map[string]io.Reader{
		"told":   strings.NewReader(strings.Repeat("x", 101)),
		"untold": io.MultiReader(strings.NewReader(strings.Repeat("x", 101))),
	} {
		if a := s.send(t, "PUT", link, body); a.StatusCode != 413 || !strings.Contains(a.body, "at most 100 bytes") {
			t.Errorf("%s: %s %s", name, a.Status, a.body)
		}
	}
	if a := s.send(t, "PUT", strings.Replace(link, "owner=ann", "owner=bob", 1), strings.NewReader("x")); a.StatusCode != 403 {
		t.Errorf("another's: %s", a.Status)
	}
	if a := s.send(t, "GET", link, nil); a.StatusCode == 200 {
		t.Errorf("read by a link to write: %s", a.Status)
	}
}

func TestRefusals(t *testing.T) {
	s := start(t)
	for kind, status := range map[core.Kind]int{
		core.ErrNotFound: 404, core.ErrUnavailable: 503, core.ErrInternal: 500, core.ErrInvalid: 400,
	} {
		s.store.err = core.Errorf(kind, "the reason")
		got := s.send(t, "GET", s.signer.File("r1", "f", time.Hour), nil)
		if got.StatusCode != status || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s %v", kind, got.Status, got.Header)
		}
		if inner := strings.Contains(got.body, "the reason"); inner != (kind != core.ErrInternal) {
			t.Errorf("%s: %q", kind, got.body)
		}
	}
}

func TestNewSigner(t *testing.T) {
	for _, base := range []string{"", "x", "ftp://h", "https://", "https://u:p@h", "https://h?q=1", "https://h#f", "/files"} {
		if _, err := links.NewSigner(make([]byte, 32), base, time.Now); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%q is taken: %v", base, err)
		}
	}
	if _, err := links.NewSigner(make([]byte, 31), "https://h", time.Now); err == nil {
		t.Error("a short key is taken")
	}
	s, err := links.NewSigner(make([]byte, 32), "https://h/sub/", time.Now)
	if err != nil || !strings.HasPrefix(s.File("r", "a/b", time.Hour), "https://h/sub/files/r/a/b?") {
		t.Errorf("%v", err)
	}
}

// FuzzLink: whatever is asked for, only a link that was made gets anything.
func FuzzLink(f *testing.F) {
	f.Add("GET", "/files/r1/f", "sum=x&until=1&issued=2")
	f.Add("PUT", "/uploads/r1/f", "owner=ann&sum=")
	f.Add("GET", "/archives/r1", "%zz")
	signer, err := links.NewSigner(bytes.Repeat([]byte{7}, 32), "http://h", time.Now)
	if err != nil {
		f.Fatal(err)
	}
	handler := links.Handler(links.Options{
		Signer: signer, Store: &store{files: map[string]string{"r1/f": "secret"}}, MaxUpload: 10, Log: slog.New(slog.DiscardHandler),
		Upload: func(context.Context, core.FileRequest, io.Reader, int64) error { panic("a file was put") },
	})
	f.Fuzz(func(t *testing.T, method, path, query string) {
		request := httptest.NewRequest("GET", "http://h/", nil)
		request.Method, request.URL = method, &url.URL{Path: path, RawQuery: query}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code == 200 || recorder.Code >= 500 {
			t.Errorf("%s %q?%q: %d %s", method, path, query, recorder.Code, recorder.Body)
		}
	})
}
