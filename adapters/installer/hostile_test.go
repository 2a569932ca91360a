package installer

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// outside lists what of hostile wheels, whose files have telling names, is where no installation has anything to
// write.
func (b *bench) outside(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("docker", "diff", b.container).Output()
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for line := range strings.Lines(string(out)) {
		path := strings.TrimSpace(line[2:])
		ours := strings.HasPrefix(path, core.GuestEnvironment+"/") || strings.HasPrefix(path, core.GuestCache+"/uv/")
		if !ours && strings.Contains(path, "escaped_") {
			found.WriteString(path + "\n")
		}
	}
	return found.String()
}

// TestWheelsThatWriteElsewhere: nothing of them is anywhere but in the environment, and what a package manager
// would leave out is an error.
func TestWheelsThatWriteElsewhere(t *testing.T) {
	x := &index{}
	x.offer(t, "dots", "1.0", nil, map[string]string{"../../../../../../escaped_dots": "x"})
	x.offer(t, "absolute", "1.0", nil, map[string]string{"/etc/escaped_absolute": "x"})
	x.offer(t, "data", "1.0", nil, map[string]string{"data-1.0.data/data/../../../../../../escaped_data": "x"})
	x.offer(t, "scripts", "1.0", nil, map[string]string{"scripts-1.0.data/scripts/../../../../../../escaped_script": "#!python\n"})
	x.offer(t, "links", "1.0", nil, nil)
	x.wheels["links"][wheelName("links", "1.0")] = withLink(t, x.wheels["links"][wheelName("links", "1.0")], "links/away", "/etc", "links/away/escaped_link")
	options := Options{IndexURL: "http://" + x.serve(t) + "/simple"}
	withTools(t, func(t *testing.T, b *bench) {
		for _, name := range []string{"dots", "dots", "absolute", "data", "scripts"} { // twice: a cache changes nothing
			b.shell(t, "rm -rf "+core.GuestEnvironment+"/*")
			if o := b.installMore(t, options, name); name == "dots" || b.tool == "pip" {
				o.refused(t, "would write outside its folder")
			}
		}
		b.installMore(t, options, "links").refused(t, "")
		if found := b.outside(t); found != "" {
			t.Errorf("written elsewhere: %s", found)
		}
	})
}

// withLink adds a symbolic link to an archive, and a file behind it.
func withLink(t *testing.T, content []byte, link, target, behind string) []byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, f := range r.File {
		if err := w.Copy(f); err != nil {
			t.Fatal(err)
		}
	}
	header := &zip.FileHeader{Name: link}
	header.SetMode(os.ModeSymlink | 0o777)
	for _, f := range []struct {
		header *zip.FileHeader
		text   string
	}{{header, target}, {&zip.FileHeader{Name: behind}, "x"}} {
		part, err := w.CreateHeader(f.header)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, f.text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestTooMuch: a small file that unpacks to very much is stopped long before that, and one that is only a little too
// big in the end.
func TestTooMuch(t *testing.T) {
	x := &index{}
	x.offer(t, "bomb", "1.0", nil, map[string]string{"bomb/zeros": strings.Repeat("\x00", 512<<20)})
	x.offer(t, "big", "1.0", nil, map[string]string{"big/zeros": strings.Repeat("\x00", 10<<20)})
	url := "http://" + x.serve(t) + "/simple"
	withTools(t, func(t *testing.T, b *bench) {
		options := Options{IndexURL: url, MaxSize: 8 << 20}
		b.install(t, options, "bomb").refused(t, "more room than an environment may have")
		var kib int
		if _, err := fmt.Sscan(b.shell(t, "du -skc "+core.GuestEnvironment+" "+core.GuestCache+" | tail -1"), &kib); err != nil || kib > 400<<10 {
			t.Errorf("%d KiB were written, %v", kib, err)
		}
		b.install(t, options, "big").refused(t, "more room than an environment may have")
		options.MaxSize = 16 << 20
		b.has(t, b.install(t, options, "big"), "big", "1.0", x.wheels["big"][wheelName("big", "1.0")])
	})
}

// TestFullDisk: the environment is on a disk that is smaller than its package.
func TestFullDisk(t *testing.T) {
	x := &index{}
	x.offer(t, "big", "1.0", nil, map[string]string{"big/zeros": strings.Repeat("\x00", 20<<20)})
	options := Options{IndexURL: "http://" + x.serve(t) + "/simple"}
	withTools(t, func(t *testing.T, b *bench) {
		b.installMore(t, options, "big").refused(t, "there is no room for the packages")
	}, "--network", "host", "--tmpfs", core.GuestEnvironment+":size=10m")
}

// TestBadIndexes: whatever an index answers, one sentence says what is wrong.
func TestBadIndexes(t *testing.T) {
	x := &index{}
	x.offer(t, "corp", "1.0", nil, nil)
	options := Options{IndexURL: "http://" + x.serve(t) + "/simple"}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>no</h1>", code) }
	}
	cases := []struct {
		name    string
		instead http.HandlerFunc
		timeout time.Duration
		uv, pip string // what each says
	}{
		{name: "401", instead: status(401), uv: "refused the credentials", pip: "the index did not answer"},
		{name: "403", instead: status(403), uv: "refused the credentials", pip: "the index did not answer"},
		{name: "404", instead: status(404), uv: "does not exist in the index", pip: "the index did not answer"},
		{name: "500", instead: status(500), uv: "the package index does not work", pip: "the index did not answer"},
		{name: "garbage", instead: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!DOCTYPE html><a href=\"\x00<<%%%zz\">corp-1.0-py3-none-any.whl</a><a><a href='javascript:1'>\xff</a")
		}, uv: "", pip: ""},
		{name: "wrong hash", instead: func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/simple/") {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, `<!DOCTYPE html><a href="/f/corp-1.0-py3-none-any.whl#sha256=`+sixHash+`">corp-1.0-py3-none-any.whl</a>`)
				return
			}
			_, _ = w.Write(x.wheels["corp"][wheelName("corp", "1.0")])
		}, uv: "what the index sent is not what it promised", pip: "what the index sent is not what it promised"},
		{name: "slow", instead: func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}, timeout: 4 * time.Second, uv: "took longer than 4s", pip: "took longer than 4s"},
		{name: "endless", instead: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!DOCTYPE html>")
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("<a href=x>y</a>\n"), 1<<10)); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, timeout: 4 * time.Second, uv: "took longer than 4s", pip: "took longer than 4s"},
	}
	withTools(t, func(t *testing.T, b *bench) {
		for _, tt := range cases {
			x.instead = tt.instead
			options.Timeout = tt.timeout
			want := tt.uv
			if b.tool == "pip" {
				want = tt.pip
			}
			t.Run(tt.name, func(t *testing.T) { b.install(t, options, "corp").refused(t, want) })
		}
	})
}

// TestKilledInstaller: somebody ends the package manager while it downloads.
func TestKilledInstaller(t *testing.T) {
	x := &index{}
	x.offer(t, "corp", "1.0", nil, nil)
	options := Options{IndexURL: "http://" + x.serve(t) + "/simple"}
	withTools(t, func(t *testing.T, b *bench) {
		x.instead = func(http.ResponseWriter, *http.Request) {
			const kill = `import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        argv = open(f"/proc/{pid}/cmdline").read().split("\0")
    except OSError:
        continue
    if "pip" in argv[:5] and argv[2] != "-c": os.kill(int(pid), 9)`
			b.shell(t, "python3 -I -c '"+kill+"'")
		}
		b.install(t, options, "corp").refused(t, "was killed")
		x.instead = nil
		b.has(t, b.installMore(t, options, "corp"), "corp", "1.0", x.wheels["corp"][wheelName("corp", "1.0")])
	})
}

// TestResolverBomb: more packages than places, each in any place but that of another. No resolver sees at once that
// this cannot be.
func TestResolverBomb(t *testing.T) {
	x := &index{}
	const places = 11
	var all []string
	for p := range places + 1 {
		name := fmt.Sprintf("pigeon%d", p)
		all = append(all, name)
		for place := range places {
			var needs []string
			for other := range places + 1 {
				if other != p {
					needs = append(needs, fmt.Sprintf("pigeon%d!=%d", other, place))
				}
			}
			x.offer(t, name, fmt.Sprint(place), needs, nil)
		}
	}
	options := Options{IndexURL: "http://" + x.serve(t) + "/simple", Timeout: 8 * time.Second}
	withTools(t, func(t *testing.T, b *bench) { b.install(t, options, all...).refused(t, "took longer than 8s") })
}
