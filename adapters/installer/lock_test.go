package installer

import (
	"errors"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestParseLock(t *testing.T) {
	const one, two = "sha256:" + sixHash, "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	text := "# by a resolver\n\nZope.Interface==5.0 \\\n    --hash=" + one + " \\\n    --hash=" + two + "\n" +
		"x @ https://files.example/x.whl \\\n    --hash=" + two + "\nb==1.0+cpu --hash=" + one + " --hash=md5:00\n"
	want := "b==1.0+cpu \\\n    --hash=" + one + "\nx @ https://files.example/x.whl \\\n    --hash=" + two + "\n" +
		"zope-interface==5.0 \\\n    --hash=" + one + " \\\n    --hash=" + two + "\n"
	l, err := parseLock(text)
	if err != nil || l.String() != want || !l.hashed() || strings.Join(l.names(), " ") != "b x zope-interface" {
		t.Errorf("got %q, %v", l, err)
	}
	if again, err := parseLock(want); err != nil || again.String() != want {
		t.Errorf("read again it is %q, %v", again, err)
	}
	l, err = parseLock("x @ git+https://code.example/x@4d03dbecf5e6bdfd7f306f8d7053e4795b806795\n")
	if err != nil || l.hashed() {
		t.Errorf("a commit: %q, %v", l, err)
	}
}

func TestRefusedLocks(t *testing.T) {
	hash := " --hash=sha256:" + sixHash
	for _, text := range []string{
		"--index-url https://index.example", "-r other.txt" + hash, "six>=1" + hash, "six==1,<2" + hash, "six==1.*" + hash, "six" + hash,
		"six==1", "six==1 --hash=md5:00", "six==1 --hash=sha256:" + sixHash[1:], `six==1 ; os_name == "a"` + hash, "./six.whl" + hash,
		"x @ https://user:pass@files.example/x.whl" + hash, "x @ file:///x.whl" + hash, "x @ https://files.example/x.whl", "six==1 -r x" + hash, "six==1\x1b" + hash,
		strings.Repeat("six==1"+hash+"\n", maxPins+1), strings.Repeat("#", maxLock+1),
	} {
		if l, err := parseLock(text); !errors.Is(err, core.ErrDependency) || len(err.Error()) > 1000 {
			t.Errorf("%.200q: got %q, %v", text, l, err)
		}
	}
}

func TestPipReport(t *testing.T) {
	report := func(install string) *fakeGuest {
		return &fakeGuest{has: missing("uv", cachedUV), reads: map[string]string{reportFile: `{"version": "1", "install": [` + install + `]}`}}
	}
	archive := `"archive_info": {"hashes": {"sha256": "` + sixHash + `"}}`
	for install, want := range map[string]string{
		`{"metadata": {"name": "Six", "version": "1.17.0"}, "download_info": {"url": "https://user:pass@index.example/six.whl", ` + archive + `}}`:                                "six==1.17.0 \\\n    --hash=sha256:" + sixHash + "\n",
		`{"is_direct": true, "metadata": {"name": "x", "version": "1"}, "download_info": {"url": "https://f.example/x.whl", ` + archive + `}}`:                                    "x @ https://f.example/x.whl \\\n    --hash=sha256:" + sixHash + "\n",
		`{"metadata": {"name": "six", "version": "1.17.0"}, "download_info": {"archive_info": {"hash": "sha256=` + sixHash + `"}}}`:                                               "six==1.17.0 \\\n    --hash=sha256:" + sixHash + "\n",
		`{"is_direct": true, "metadata": {"name": "x", "version": "1"}, "download_info": {"url": "https://f.example/x", "subdirectory": "a", "vcs_info": {"commit_id": "4d03"}}}`: "x @ git+https://f.example/x@4d03#subdirectory=a\n",
		"": "",
	} {
		installed, err := New(Options{}).Install(t.Context(), report(install), core.Ready{}, requirements(t, "six"), nil)
		if err != nil || installed.Lock != want {
			t.Errorf("%s: got %q, %v", install, installed.Lock, err)
		}
	}
	for _, install := range []string{
		`{"metadata": {"name": "six", "version": "1.17.0"}}`, `{"metadata": {"name": "six\n-r x", "version": "1"}, "download_info": {` + archive + `}}`,
		`{"is_direct": true, "metadata": {"name": "x"}, "download_info": {"url": "https://user:pass@f.example/x.whl", ` + archive + `}}`, `7`,
	} {
		if installed, err := New(Options{}).Install(t.Context(), report(install), core.Ready{}, requirements(t, "six"), nil); !errors.Is(err, core.ErrDependency) {
			t.Errorf("%s: got %q, %v", install, installed.Lock, err)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add("six==1 --hash=sha256:" + sixHash)
	f.Add("x @ git+https://code.example/x@v1\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLock(text)
		if err != nil {
			return
		}
		for line := range strings.Lines(strings.ReplaceAll(l.String(), " \\\n    --hash=", " --hash=")) {
			if strings.HasPrefix(line, "-") || strings.Count(line, " -") != strings.Count(line, " --hash=sha") {
				t.Errorf("%q: %q holds an option", text, line)
			}
		}
		if again, err := parseLock(l.String()); err != nil || again.String() != l.String() {
			t.Errorf("%q becomes %q, %v", l, again, err)
		}
	})
}
