package core

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestParseRequirements(t *testing.T) {
	tests := []struct{ in, want string }{
		{"pandas", "pandas"},
		{"  Pandas  ", "pandas"},
		{"requests[socks]>=2,<3", "requests[socks]>=2,<3"},
		{"requests [ socks , Use_Chardet ] >= 2 , < 3", "requests[socks,use-chardet]>=2,<3"},
		{`tomli; python_version<"3.11"`, `tomli ; python_version < "3.11"`},
		{`x[a]==1.*; (os_name == 'nt' and extra == "b") or sys_platform != "win32"`, `x[a]==1.* ; os_name == "nt" and extra == "b" or sys_platform != "win32"`},
		{`x;(os_name=='nt'or(extra=="b"))and((sys_platform!="win32"))`, `x ; (os_name == "nt" or extra == "b") and sys_platform != "win32"`},
		{`x; ((os_name == "a" or os_name == "b")) and os_name == "c"`, `x ; (os_name == "a" or os_name == "b") and os_name == "c"`},
		{`x; (((os_name == "a")) and ((os_name == "b")))`, `x ; os_name == "a" and os_name == "b"`},
		{`x; (os_name == "a" or os_name == "b") or os_name == "c"`, `x ; os_name == "a" or os_name == "b" or os_name == "c"`},
		{`x; os_name == "a" and (os_name == "b" and os_name == "c")`, `x ; os_name == "a" and os_name == "b" and os_name == "c"`},
		{`x; python_version not  in '2.7 3.6'`, `x ; python_version not in "2.7 3.6"`},
		{"x[b,a,B]", "x[a,b]"},
		{"x==1.0rc1.post2.dev3", "x==1.0rc1.post2.dev3"},
		{`x; "linux" in sys_platform`, `x ; "linux" in sys_platform`},
		{"zope.interface~=5.0", "zope-interface~=5.0"},
		{"a__b-.c===1.0+local", "a-b-c===1.0+local"},
		{"x (>=1,<2)", "x>=1,<2"},
		{"x[]", "x"},
		{"x>=1,", "x>=1"},
		{"0x!=1!2.0", "0x!=1!2.0"},
		{"foo-1.0-py3-none-any.whl", "foo-1-0-py3-none-any-whl"}, // a name, never a file
	}
	for _, tt := range tests {
		list, err := ParseRequirements([]string{tt.in})
		if err != nil || len(list) != 1 || list[0].String() != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.in, list, err, tt.want)
		}
	}
}

// TestRefusedRequirements is case B84: nothing becomes an option, a path, a link or a command.
func TestRefusedRequirements(t *testing.T) {
	for _, in := range []string{
		"six~=1", "six>=1.0.dev0+local", "six<2+x", "six~=1.0+x",
		"--index-url=https://evil.example/simple", "-r /etc/passwd", "-e .", "-", "- x", "--pre",
		"x; touch /tmp/p", "x; touch p", "x && y", "x|y", "x`y`", "$(x)", "${HOME}", "x #comment", "x\\",
		"git+https://evil.example/x", "git+ssh://git@evil.example/x", "file:///etc/passwd", "https://evil.example/x.whl",
		"./x", "../x", ".", "..", "/x", "x/y", `\\host\x`, "~/x", "a @ http://evil.example/a", "a@b", "a @ file:b",
		"x\n--index-url y", "x\r\ny", "x\ty", "x\x00", "x\x1b[31m", "x\u2028y", "é", "раndas", "x\xff",
		"pandas==1.0 evil", "pandas 1.0", "pandas evil", "x==1.0 --hash=sha256:00", "x>=", "x=1", "x<>1", "x>=1 <2", "x>=1,,<2", "==1", "[socks]", "x[a", "x[a]]", "x[a b]", "x-", "x_==1",
		"x;", `x; python_version`, `x; "a"`, `x; python_version < "3"; y`, "x; python_version < 3", "x>=1; --pre",
		`six ; python_version>"3" --global-option="--verbose"`, `six ; python_version>"3" --index-url="x"`, `six ; python_version>"3" -r x`,
		`x; python_version > "3 --pre"`, `x; python_version > "3" -`, `x; python_version > "3"; python_version > "3"`, `x; python_version > "3" #y`,
		`x; python_version > "3" \\`, `x; python_version > "3" and`, `x; or python_version > "3"`, `x; (python_version > "3"`, `x; python_version > "3")`,
		`x; ()`, `x; "3" > "3"`, `x; os_name > os_name`, `x; python_release > "3"`, `x; os_name not "3"`, `x; os_name notin "3"`, `x; os_name == "3'`,
		`x; os_name == "a" andos_name == "b"`, `x; os_name == "--pre`, `x; os_name "a"`, `x; os_name == "a" "b"`,
		"x===evil", "x==-r", "x>=1.*", "x==1.*.2", "x==1 --pre", "x==", "x[-]", "x[a,]", "x[,a]", "x(>=1", "x((>=1))",
		"_x", "-x", ".x", "!", strings.Repeat("x", 301), "x;os_name=='a'" + strings.Repeat("and os_name=='a'", 17), // longer with its spaces
	} {
		list, err := ParseRequirements([]string{in})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %q, %v, want ErrInvalid", in, list, err)
			continue
		}
		if text := err.Error(); strings.ContainsAny(text, "\n\r\x1b\x00") || len(text) > 500 || HintOf(err) == "" {
			t.Errorf("%q: not one plain sentence with a hint: %q", in, text)
		}
	}
}

func TestRequirementLists(t *testing.T) {
	list, err := ParseRequirements([]string{"b", "", "A", "  ", "B", "a>=1", "a"})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range list {
		texts = append(texts, r.String())
	}
	if got := strings.Join(texts, " "); got != "a a>=1 b" {
		t.Errorf("got %s", got)
	}
	if list, err := ParseRequirements(nil); len(list) != 0 || err != nil {
		t.Errorf("of none: %v, %v", list, err)
	}
	if _, err := ParseRequirements(make([]string, 101)); !errors.Is(err, ErrInvalid) {
		t.Errorf("of 101: got %v, want ErrInvalid", err)
	}
	if _, err := ParseRequirements([]string{"a", "-r x"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("one bad of two: got %v, want ErrInvalid", err)
	}
}

func FuzzParseRequirements(f *testing.F) {
	for _, seed := range []string{"requests[socks]>=2,<3", `tomli; python_version<"3.11"`, "x(>=1,)", "x[-]", "x[a,a]", `x;(os_name=='nt'or(extra=="b"))and((sys_platform not in"win32"))`, `x;os_name=="a -r b"`, `x==1;os_name=='a'--pre`, "x;os_name=='a'" + strings.Repeat("and os_name=='a'", 17), "-r x", "a\nb", "a ;'='"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		list, err := ParseRequirements([]string{in})
		if err != nil || len(list) == 0 {
			return
		}
		text := list[0].String()
		if !regexp.MustCompile(`^[a-z0-9][ -~]*$`).MatchString(text) || strings.ContainsAny(text, `\/@#$`) {
			t.Errorf("%q: %q is not one plain line that begins with a letter or digit", in, text)
		}
		// pip splits at " -" without regard to quotes.
		if strings.Contains(text, " -") || strings.Contains(text, "--") && !strings.Contains(text, `"`) {
			t.Errorf("%q: %q holds an option", in, text)
		}
		again, err := ParseRequirements([]string{text})
		if err != nil || len(again) != 1 || again[0].String() != text {
			t.Errorf("%q: %q becomes %q, %v", in, text, again, err)
		}
	})
}
