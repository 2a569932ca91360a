package main

import (
	"strings"
	"testing"
)

func runOf(t *testing.T, place string, lines ...string) run {
	t.Helper()
	r, err := read(place, strings.NewReader(strings.Join(lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTable(t *testing.T) {
	docker := runOf(t, "docker",
		`{"Action":"pass","Test":"TestCases/B1_a"}`, `{"Action":"output","Test":"TestCases/B2","Output":"it broke\n"}`,
		`{"Action":"fail","Test":"TestCases/B2"}`, `{"Action":"fail","Test":"TestCases"}`, `{"Action":"pass","Test":"TestSocket"}`,
		`{"Action":"pass","Test":"TestOther/a"}`, `{"Action":"pass","Test":"TestOther"}`, `{"Action":"fail"}`)
	gvisor := runOf(t, "gvisor",
		`{"Action":"pass","Test":"TestCases/B1_a"}`, `{"Action":"pass","Test":"TestCases/B2"}`, `{"Action":"pass","Test":"TestCases/B3"}`, `{"Action":"pass","Test":"TestCases"}`,
		`{"Action":"output","Test":"TestSocket","Output":"not for gvisor: it has none\n"}`, `{"Action":"skip","Test":"TestSocket"}`,
		`{"Action":"pass","Test":"TestOther"}`, `{"Action":"pass"}`)
	dead := runOf(t, "dead", `{"Action":"skip","Test":"TestCases"}`, `cannot compile`)
	var out strings.Builder
	table(&out, []run{docker, gvisor, dead})
	//nolint:dupword // cells may be alike
	want := `case                                docker   gvisor   dead
Cases/B1 a                          ok       ok       skip
Cases/B2                            FAIL     ok       skip
Cases/B3                            FAIL     ok       skip
Other/a                             ok       -        FAIL
Socket                              ok       -        FAIL
ok / not for it / skipped / failed  3/0/0/2  3/2/0/0  0/0/3/2
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if explain(&out, []run{docker, gvisor, dead}) {
		t.Error("failures are well")
	}
	for _, part := range []string{"=== docker: 2 failed\nit broke\n", "=== dead: 2 failed\n", "cannot compile"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q lacks %q", &out, part)
		}
	}
	if strings.Contains(out.String(), "=== gvisor") || !explain(&out, []run{gvisor}) {
		t.Error("what went well is not")
	}
}
