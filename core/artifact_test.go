package core

import (
	"errors"
	"strings"
	"testing"
)

func TestArtifactURI(t *testing.T) {
	tests := []struct{ run, name, want string }{
		{"r1", "plot.png", "boxwright://runs/r1/plot.png"},
		{"r_-1", "a b/it's.txt", "boxwright://runs/r_-1/a%20b/it%27s.txt"},
		{"r", "ü/100%#?.csv", "boxwright://runs/r/%C3%BC/100%25%23%3F.csv"},
		{"r", `back\slash`, "boxwright://runs/r/back%5Cslash"},
		{"r", "new\nline", "boxwright://runs/r/new%0Aline"},
		{"r", "...", "boxwright://runs/r/..."},
	}
	for _, tt := range tests {
		got := ArtifactURI(tt.run, tt.name)
		if got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.name, got, tt.want)
		}
		if run, name, err := ParseArtifactURI(got); run != tt.run || name != tt.name || err != nil {
			t.Errorf("%s: leads to %q, %q, %v", got, run, name, err)
		}
	}
}

func TestParseArtifactURIRefuses(t *testing.T) {
	for _, uri := range []string{
		"", "boxwright://runs/", "boxwright://runs/r", "boxwright://runs/r/", "boxwright://runs//a",
		"file:///etc/passwd", "boxwright://boxes/r/a", "Boxwright://runs/r/a",
		"boxwright://runs/r/..", "boxwright://runs/r/../../x", "boxwright://runs/r/%2e%2e/x", "boxwright://runs/r/a%2F..%2F..%2Fx",
		"boxwright://runs/../r/a", "boxwright://runs/r%2F/a", "boxwright://runs/r/%", "boxwright://runs/r/%zz",
		"boxwright://runs/r/%00", "boxwright://runs/r/%ff", "boxwright://runs/r//a", "boxwright://runs/r/./a",
		"boxwright://runs/r/%2Fetc", "boxwright://runs/" + strings.Repeat("r", 65) + "/a",
	} {
		if _, _, err := ParseArtifactURI(uri); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", uri, err)
		}
	}
}

func FuzzArtifactURI(f *testing.F) {
	f.Add("r", "a b/ü%")
	f.Add("r", "../x")
	f.Fuzz(func(t *testing.T, run, name string) {
		if CheckArtifact(run, name) != nil {
			return
		}
		uri := ArtifactURI(run, name)
		if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q is not a URI", uri)
		}
		if gotRun, gotName, err := ParseArtifactURI(uri); gotRun != run || gotName != name || err != nil {
			t.Errorf("%s: leads to %q, %q, %v, not %q, %q", uri, gotRun, gotName, err, run, name)
		}
	})
}

func FuzzParseArtifactURI(f *testing.F) {
	f.Add("boxwright://runs/r/a%20b")
	f.Add("boxwright://runs/r/a%2f..")
	f.Fuzz(func(t *testing.T, uri string) {
		run, name, err := ParseArtifactURI(uri)
		if err == nil && CheckArtifact(run, name) != nil {
			t.Errorf("%q: %q, %q was let through", uri, run, name)
		}
	})
}

func TestMIMETypeOf(t *testing.T) {
	tests := []struct{ name, head, want string }{
		{"a.png", "", "image/png"},
		{"A.PNG", "", "image/png"},
		{"dir.png/a.csv", "", "text/csv; charset=utf-8"},
		{"a.parquet", "PAR1", "application/vnd.apache.parquet"},
		{"a.json", "{}", "application/json"},
		{"unknown", "\x89PNG\r\n\x1a\n....", "image/png"},
		{"unknown", "RIFF....WEBPVP8", "image/webp"},
		{"unknown", "%PDF-1.7", "application/pdf"},
		{"unknown.xyz", "hello ü\n", "text/plain; charset=utf-8"},
		{"unknown", "cut in tw\xc3", "text/plain; charset=utf-8"},
		{"unknown", "not\xffutf-8", "application/octet-stream"},
		{"unknown", "a\x00b", "application/octet-stream"},
		{"empty", "", "text/plain; charset=utf-8"},
	}
	for _, tt := range tests {
		if got := MIMETypeOf(tt.name, []byte(tt.head)); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.name, tt.head, got, tt.want)
		}
	}
}
