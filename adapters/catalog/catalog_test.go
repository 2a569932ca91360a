package catalog_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/catalog"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

var _ dependency.Catalog = (*catalog.Catalog)(nil)

const projectAnswer = `{"info": {"name": "Tool", "version": "2.0", "summary": "Does\n things\u001b[31m", "requires_python": ">=3.9"},
	"releases": {"1.9": [{"yanked": false, "requires_python": ">=3.7"}], "1.10": [{"yanked": true}, {"requires_python": ">=3.8"}],
	"2.0": [{"yanked": true}], "3.0rc1": [{}], "0.1": [], "junk": [{}]}}`

const simpleAnswer = `{"meta": {"api-version": "1.1"}, "name": "tool", "files": [
	{"filename": "tool-1.0.tar.gz", "url": "x/tool-1.0.tar.gz", "yanked": false},
	{"filename": "Tool-1.2-py3-none-any.whl", "url": "../x/Tool-1.2-py3-none-any.whl", "requires-python": ">=3.8", "core-metadata": {"sha256": "00"}},
	{"filename": "tool-1.2.zip", "url": "x/tool-1.2.zip", "requires-python": ">=3.8"},
	{"filename": "tool-1.3-py3-none-any.whl", "url": "x", "yanked": "broken"},
	{"filename": "toolbox-9-py3-none-any.whl", "url": "x"}, {"filename": "readme", "url": "x"}]}`

const htmlAnswer = `<!DOCTYPE html><body><a href="x/tool-1.0.tar.gz#sha256=0">tool-1.0.tar.gz</a>
<A  data-requires-python="&gt;=3.8" data-core-metadata='sha256=0' href='/x/tool-1.2-py3-none-any.whl#f'> tool-1.2-py3-none-any.whl </A>
<a href="x" data-yanked>tool-1.3-py3-none-any.whl</a>`

// page is what an index answers at a path.
type page struct {
	mediaType, body string
	status          int
}

// serve is an index with these pages.
func serve(t *testing.T, pages map[string]page) string {
	t.Helper()
	s := httptest.NewServer(handler(pages))
	t.Cleanup(s.Close)
	return s.URL
}

func handler(pages map[string]page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, has := pages[r.URL.Path]
		switch {
		case !has:
			http.NotFound(w, r)
		case p.status != 0:
			w.WriteHeader(p.status)
		default:
			w.Header().Set("Content-Type", p.mediaType)
			fmt.Fprint(w, p.body)
		}
	})
}

const simpleType = "application/vnd.pypi.simple.v1+json"

func TestLook(t *testing.T) {
	metadata := page{body: "Metadata-Version: 2.1\nName: tool\nSummary: Does things\nClassifier: a\n\nLong"}
	for name, tt := range map[string]struct {
		path  string
		pages map[string]page
		want  core.Package
	}{
		"the project's JSON": {
			"/root/simple/",
			map[string]page{"/root/pypi/tool/json": {body: projectAnswer}, "/root/simple/tool/": {status: 500}},
			core.Package{Name: "Tool", Summary: "Does things", Versions: []string{"1.10", "1.9"}, RequiresPython: ">=3.8"},
		},
		"a project's JSON without releases": {
			"/simple",
			map[string]page{"/pypi/tool/json": {body: `{"info": {"name": "tool", "version": "2.0", "requires_python": null}}`}},
			core.Package{Name: "tool", Versions: []string{"2.0"}},
		},
		"the simple API as JSON": {
			"/simple",
			map[string]page{"/simple/tool/": {mediaType: simpleType + "; charset=utf-8", body: simpleAnswer}, "/simple/x/Tool-1.2-py3-none-any.whl.metadata": metadata},
			core.Package{Name: "tool", Summary: "Does things", Versions: []string{"1.2", "1.0"}, RequiresPython: ">=3.8"},
		},
		"the simple API as HTML": {
			"/",
			map[string]page{"/tool/": {mediaType: "text/html", body: htmlAnswer}, "/x/tool-1.2-py3-none-any.whl.metadata": metadata},
			core.Package{Name: "tool", Summary: "Does things", Versions: []string{"1.2", "1.0"}, RequiresPython: ">=3.8"},
		},
		"no metadata": {
			"/simple",
			map[string]page{"/pypi/tool/json": {body: "<html>"}, "/simple/tool/": {mediaType: "text/html", body: htmlAnswer}},
			core.Package{Name: "tool", Versions: []string{"1.2", "1.0"}, RequiresPython: ">=3.8"},
		},
	} {
		got, err := catalog.New(catalog.Options{Indexes: []string{serve(t, tt.pages) + tt.path}}).Look(t.Context(), "tool")
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, tt.want)
		}
	}
}

func TestIndexesInOrder(t *testing.T) {
	empty, full := serve(t, nil), serve(t, map[string]page{"/pypi/tool/json": {body: projectAnswer}})
	broken := serve(t, map[string]page{"/pypi/tool/json": {status: 502}, "/pypi/none/json": {status: 502}})
	c := catalog.New(catalog.Options{Indexes: []string{broken + "/simple", empty + "/simple", full + "/simple"}})
	if got, err := c.Look(t.Context(), "tool"); err != nil || got.Name != "Tool" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Look(t.Context(), "none"); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "status 502") {
		t.Errorf("got %v", err)
	}
	c = catalog.New(catalog.Options{Indexes: []string{empty + "/simple", full + "/simple"}})
	if _, err := c.Look(t.Context(), "none"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// A private index: credentials, a certificate authority of its own, and a metadata file beside the page.
func TestPrivateIndex(t *testing.T) {
	pages := handler(map[string]page{
		"/simple/tool/": {mediaType: simpleType, body: simpleAnswer}, "/simple/x/Tool-1.2-py3-none-any.whl.metadata": {body: "Summary: ours\n\n"},
	})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "reader" || password != "s3cret/word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	}))
	defer s.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(credentials string) string {
		return strings.Replace(s.URL, "://", "://"+credentials, 1) + "/simple"
	}
	got, err := catalog.New(catalog.Options{Indexes: []string{with("reader:s3cret%2Fword@")}, CABundle: bundle}).Look(t.Context(), "tool")
	if err != nil || got.Summary != "ours" {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, tt := range map[string]struct {
		options catalog.Options
		want    string
	}{
		"no credentials":    {catalog.Options{Indexes: []string{with("")}, CABundle: bundle}, "refused the credentials"},
		"wrong credentials": {catalog.Options{Indexes: []string{with("reader:wr0ngword@")}, CABundle: bundle}, "refused the credentials"},
		"not trusted":       {catalog.Options{Indexes: []string{with("reader:s3cret%2Fword@")}}, "certificate is not trusted"},
		"no bundle":         {catalog.Options{Indexes: []string{with("")}, CABundle: bundle + "x"}, "certificate bundle"},
	} {
		_, err := catalog.New(tt.options).Look(t.Context(), "tool")
		if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
		for _, secret := range []string{"s3cret", "wr0ng", "127.0.0.1"} {
			if strings.Contains(err.Error()+fmt.Sprintf("%v %+v %#v", tt.options, tt.options, tt.options), secret) {
				t.Errorf("%s: %v shows %s", name, err, secret)
			}
		}
	}
}

func TestProxy(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Proxy-Authorization") + " " + r.URL.String()
		fmt.Fprint(w, projectAnswer)
	}))
	defer proxy.Close()
	through := strings.Replace(proxy.URL, "://", "://user:word@", 1)
	c := catalog.New(catalog.Options{Indexes: []string{"http://index.example/simple"}, HTTPProxy: through})
	if _, err := c.Look(t.Context(), "tool"); err != nil || asked != "Basic dXNlcjp3b3Jk http://index.example/pypi/tool/json" {
		t.Errorf("the proxy was asked %q, %v", asked, err)
	}
}

func TestNoIndexThatAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := listener.Addr().String() // takes connections, and says nothing
	defer listener.Close()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	}))
	defer loop.Close()
	for index, want := range map[string]string{
		"http://127.0.0.1:1/T0ken/simple":    "cannot be reached",
		"http://T0ken.invalid/simple":        "cannot be reached",
		"http://" + silent + "/T0ken/simple": "did not answer in time",
		endless.URL + "/T0ken/simple":        "answer has more than",
		loop.URL + "/T0ken/simple":           "cannot be reached",
		"::T0ken":                            "cannot be read",
		serve(t, map[string]page{"/T0ken/pypi/tool/json": {status: 503}}) + "/T0ken/simple": "answered with status 503",
		serve(t, map[string]page{"/tool/": {mediaType: simpleType, body: "{"}}):             "cannot be read",
	} {
		o := catalog.Options{Indexes: []string{index}, Timeout: 5 * time.Second}
		if strings.Contains(index, silent) {
			o.Timeout = 100 * time.Millisecond
		}
		_, err := catalog.New(o).Look(t.Context(), "tool")
		if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "T0ken") {
			t.Errorf("%s: got %v, want %s", index, err, want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := catalog.New(catalog.Options{Indexes: []string{"http://" + silent}}).Look(gone, "tool"); !errors.Is(err, core.ErrCancelled) {
		t.Errorf("a call that was given up: %v", err)
	}
}

func TestFolderOfWheels(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"My_Tool-1.0-py3-none-any.whl", "my_tool-1.2-py3-none-any.whl", "my_tool-1.2-cp311-abi3-linux.whl", "my_toolbox-3-py3-none-any.whl", "x.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := catalog.New(catalog.Options{Wheels: folder, Indexes: []string{"http://127.0.0.1:1/"}})
	if got, err := c.Look(t.Context(), "my-tool"); err != nil || !reflect.DeepEqual(got.Versions, []string{"1.2", "1.0"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Look(t.Context(), "other"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := catalog.New(catalog.Options{Wheels: folder + "/none"}).Look(t.Context(), "x"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// FuzzAnswers: whatever an index answers, what comes out is short and plain.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{projectAnswer, simpleAnswer, htmlAnswer} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	var body, mediaType string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		fmt.Fprint(w, body)
	}))
	f.Cleanup(s.Close)
	c := catalog.New(catalog.Options{Indexes: []string{s.URL + "/simple"}})
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		body, mediaType = text, "text/html"
		if asJSON {
			mediaType = simpleType
		}
		got, err := c.Look(t.Context(), "tool")
		if err != nil && core.KindOf(err) == core.ErrInternal {
			t.Errorf("%q: %v", text, err)
		}
		all := strings.Join(append(got.Versions, got.Name, got.Summary, got.RequiresPython), " ")
		if len(all) > 2000 || !core.IsPlainText([]byte(all)) || strings.Contains(all, "\n") {
			t.Errorf("%q gave %q", text, all)
		}
	})
}

// TestIndexThatIsNotKnownHere: what no known index has may be in the one that only package managers know.
func TestIndexThatIsNotKnownHere(t *testing.T) {
	known := serve(t, map[string]page{"/tool/": {mediaType: simpleType, body: `{"files": [{"filename": "tool-1.0.tar.gz", "url": "x"}]}`}})
	for _, indexes := range [][]string{nil, {""}, {known, ""}} {
		c := catalog.New(catalog.Options{Indexes: indexes})
		if _, err := c.Look(t.Context(), "other"); !errors.Is(err, core.ErrUnsupported) || core.HintOf(err) == "" {
			t.Errorf("%q: got %v", indexes, err)
		}
	}
	if found, err := catalog.New(catalog.Options{Indexes: []string{known, ""}}).Look(t.Context(), "tool"); err != nil || len(found.Versions) != 1 {
		t.Errorf("got %+v, %v", found, err)
	}
}
