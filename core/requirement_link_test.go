package core

import (
	"errors"
	"strings"
	"testing"
)

const linkHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestLinks(t *testing.T) {
	tests := []struct{ in, want string }{
		{"Six @ https://files.example/a/six-1.0-py3-none-any.whl", "six @ https://files.example/a/six-1.0-py3-none-any.whl"},
		{"six@https://files.example:8443/six.whl#sha256=" + linkHash, "six @ https://files.example:8443/six.whl#sha256=" + linkHash},
		{`x[B,a] @ https://f.example/x.whl ; os_name=='a'`, `x[a,b] @ https://f.example/x.whl ; os_name == "a"`},
		{"x @ git+https://code.example/team/x", "x @ git+https://code.example/team/x"},
		{"x @ git+https://code.example/x.git@v1.0-rc/1#subdirectory=python/x", "x @ git+https://code.example/x.git@v1.0-rc/1#subdirectory=python/x"},
		{"pandas>=2", "pandas>=2"},
	}
	policy := RequirementPolicy{Links: true, Builds: true}
	for _, tt := range tests {
		list, err := policy.Parse([]string{tt.in})
		if err != nil || len(list) != 1 || list[0].String() != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.in, list, err, tt.want)
			continue
		}
		if again, err := policy.Parse([]string{tt.want}); err != nil || again[0].String() != tt.want {
			t.Errorf("%q: read again it is %q, %v", tt.want, again, err)
		}
	}
}

func TestRefusedLinks(t *testing.T) {
	for _, in := range []string{
		"https://f.example/x.whl", "@ https://f.example/x.whl", "x @", "x @ f.example/x.whl", "x @ http://f.example/x.whl", "x @ file:///etc/passwd",
		"x @ ./x", "x @ /x", "x @ https://user:pw@f.example/x.whl", "x @ https://user@f.example/x", "x @ https://f.example/x.whl?token=1", "x @ https://f.example",
		"x @ https://f.example/../x", "x @ https://f.example/.x", "x @ https:///x", "x @ https://-x/x", "x @ https://f.example/x.whl --pre", "x @ https://f.example/x\n-r y",
		"x>=1 @ https://f.example/x.whl", "x @ https://f.example/x.whl#egg=y", "x @ https://f.example/x.whl#sha256=0", "x @ https://f.example/x.whl ; --pre", "x y @ https://f.example/x.whl",
		"x @ git+ssh://git@f.example/x", "x @ git+http://f.example/x", "x @ git+file:///x", "x @ git+https://f.example/x@-upload-pack", "x @ git+https://f.example/x@a..b",
		"x @ git+https://f.example/x#subdirectory=../y", "x @ git+https://f.example/x#subdirectory=/y", "x @ hg+https://f.example/x", "x @ https://f.example/é",
		"./x", "/x", "x #y", "--pre", "-e git+https://f.example/x", "x @ https://f.example/${HOME}", "x @ https://f.example/" + strings.Repeat("x", 300),
	} {
		if list, err := (RequirementPolicy{Links: true, Builds: true}).Parse([]string{in}); !errors.Is(err, ErrInvalid) || HintOf(err) == "" {
			t.Errorf("%q: got %q, %v", in, list, err)
		}
	}
}

func TestLinkPolicy(t *testing.T) {
	const file, repository = "x @ https://f.example/x.whl", "x @ git+https://f.example/x"
	for _, tt := range []struct {
		policy RequirementPolicy
		in     string
		hint   string // "" is allowed
	}{
		{RequirementPolicy{}, file, "dependencies.direct_urls"},
		{RequirementPolicy{}, repository, "dependencies.direct_urls"},
		{RequirementPolicy{Builds: true}, repository, "dependencies.direct_urls"},
		{RequirementPolicy{Links: true}, file, ""},
		{RequirementPolicy{Links: true}, repository, "dependencies.allow_source_builds"},
		{RequirementPolicy{Links: true, Builds: true}, repository, ""},
	} {
		_, err := tt.policy.Parse([]string{tt.in})
		if refused := tt.hint != ""; refused != errors.Is(err, ErrInvalid) || !strings.Contains(HintOf(err), tt.hint) {
			t.Errorf("%+v, %q: %v, hint %q", tt.policy, tt.in, err, HintOf(err))
		}
	}
}
