package core

import (
	"errors"
	"strings"
	"testing"
)

const testDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestNormalizeImage(t *testing.T) {
	tests := []struct{ in, want string }{ // "" is refused
		{"python", "python:latest"},
		{"python:3.11-slim", "python:3.11-slim"},
		{"docker.io/library/python:3.11", "python:3.11"},
		{"index.docker.io/library/python:3.11", "python:3.11"},
		{"library/python", "python:latest"},
		{"docker.io/team/tool", "team/tool:latest"},
		{"docker.io/localhost/tool", "docker.io/localhost/tool:latest"},
		{"docker.io/a.b/tool", "docker.io/a.b/tool:latest"},
		{"library/team/tool:1", "library/team/tool:1"},
		{"localhost/python:3.11-slim", "localhost/python:3.11-slim"},
		{"localhost:5000/a", "localhost:5000/a:latest"},
		{"reg.example:5000/a/b__c:V1", "reg.example:5000/a/b__c:V1"},
		{"[::1]:5000/a", "[::1]:5000/a:latest"},
		{"python@" + testDigest, "python@" + testDigest},
		{"python:3@" + testDigest, "python:3@" + testDigest},

		{"host", "host"}, // no image: the machine's own programs
		{"host:latest", "host:latest"},
		{"docker.io/library/host", "host:latest"},

		{"", ""},
		{"Python", ""},
		{"a b", ""},
		{"a\n", ""},
		{"a\x00", ""},
		{"ä", ""},
		{"python:", ""},
		{"python:-x", ""},
		{"python:a:b", ""},
		{"-python", ""},
		{"--privileged", ""},
		{"/python", ""},
		{"a//b", ""},
		{"../a", ""},
		{"a/../b", ""},
		{"reg.example/", ""},
		{"reg..example:port/a", ""},
		{"python@sha256:12", ""},
		{"python@md5:00", ""},
		{"a@" + testDigest + "@" + testDigest, ""},
		{strings.TrimPrefix(testDigest, "sha256:"), ""},
		{strings.Repeat("a", 256), ""},
		{strings.Repeat("a", 250), ""}, // too long once it has a tag
		{"https://reg.example/a", ""},
	}
	for _, tt := range tests {
		got, err := NormalizeImage(tt.in)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q: got %q, %v, want %q", tt.in, got, err, tt.want)
		}
		if err != nil && (!errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: not one plain sentence of ErrInvalid: %q", tt.in, err)
		}
	}
}

func TestImagePolicy(t *testing.T) {
	tests := []struct {
		patterns string // by spaces
		ref      string
		allowed  bool
	}{
		{"python", "python:3.11-slim", true},
		{"python", "docker.io/library/python", true},
		{"docker.io/library/python", "python:3", true},
		{"python", "python@" + testDigest, true},
		{"python", "python:3@" + testDigest, true},
		{"python", "pythonx", false},
		{"python", "evil/python", false},
		{"python", "localhost/python", false},
		{"python:3.11", "python:3.11", true},
		{"python:3.11", "python:3.12", false},
		{"python:3.11", "python:3.11@" + testDigest, false}, // the digest may be of anything
		{"python:latest", "python", true},
		{"python:3.*", "python:3.11-slim", true},
		{"python:3.*", "python:2.7", false},
		{"local/*", "local/tool:1", true},
		{"local/*", "local/a/b:1", false},
		{"local/*", "other/local", false},
		{"local/py*:1.*", "local/pypy:1.2", true},
		{"python@" + testDigest, "python@" + testDigest, true},
		{"python@" + testDigest, "python:3@" + testDigest, true},
		{"python@" + testDigest, "python:3", false},
		{"*", "reg.example/any/thing:1", true},
		{"node python", "python", true},
		{"", "python", false},
		{"*:1", "python:1", true},
		{"*:1", "a/b:1", false},
	}
	for _, tt := range tests {
		policy := ImagePolicy(strings.Fields(tt.patterns))
		if err := policy.Validate(); err != nil {
			t.Errorf("%q: %v", tt.patterns, err)
		}
		err := policy.Allow(tt.ref)
		if (err == nil) != tt.allowed || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("%q with %q: %v, allowed should be %v", tt.ref, tt.patterns, err, tt.allowed)
		}
	}
	if err := (ImagePolicy{"*"}).Allow("a b"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a malformed ref: got %v, want ErrInvalid", err)
	}
	const want = "image node:latest is not allowed; allowed are: python, local/* (add it to images.allow)"
	if err := (ImagePolicy{"python", "local/*"}).Allow("node"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestImagePolicyValidate(t *testing.T) {
	for _, bad := range []string{"", " ", "a b", "*/python", "lo*/python", "python:[3]", "py?hon", "Python", "a@sha256:*", "python:"} {
		if err := (ImagePolicy{bad}).Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
}

func FuzzNormalizeImage(f *testing.F) {
	for _, seed := range []string{"python", "docker.io/library/a/b:c", "localhost:5000/a@" + testDigest, "a:b:c", "[::1]/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		normal, err := NormalizeImage(ref)
		if err != nil {
			return
		}
		again, err := NormalizeImage(normal)
		if err != nil || again != normal {
			t.Errorf("%q: normal form %q becomes %q, %v", ref, normal, again, err)
		}
		if len(normal) > maxImageLength || strings.ContainsAny(normal, " \n\x00") || strings.HasPrefix(normal, "-") {
			t.Errorf("%q: normal form %q is unsafe", ref, normal)
		}
	})
}

func FuzzImagePolicy(f *testing.F) {
	f.Add("python", "python:3.11")
	f.Add("local/*", "local/a")
	f.Add("docker.io/library/x*:1", "x")
	f.Fuzz(func(t *testing.T, pattern, ref string) {
		normal, err := NormalizeImage(ref)
		if err != nil {
			return
		}
		policy := ImagePolicy{pattern}
		if policy.Validate() != nil && policy.Allow(ref) == nil {
			t.Errorf("pattern %q cannot be read, and allows %q", pattern, ref)
		}
		if (policy.Allow(ref) == nil) != (policy.Allow(normal) == nil) {
			t.Errorf("pattern %q: %q and %q are the same image", pattern, ref, normal)
		}
		if err := (ImagePolicy{normal}).Allow(ref); err != nil {
			t.Errorf("%q does not allow itself: %v", ref, err)
		}
	})
}
