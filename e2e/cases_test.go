package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// testCase is one case of people who run sandboxes, as a single run or as a small play.
type testCase struct {
	id   string // the case's number, and what is tried of it
	code string
	with args // arguments beside the code
	want outcome
	also func(t *testing.T, s *server, r result) // looks closer at the result
	play func(t *testing.T, s *server)           // instead of all but the id
}

// outcome is what a run must give. All of stdout and all files are named; a zero field is a
// program that succeeded in silence.
type outcome struct {
	status string // "" is ok
	exit   int
	signal string
	stdout string
	stderr string // a part; "" is none at all
	files  []string
	images int
	any    bool // stdout, stderr and files are for also to look at

	refused string   // the kind of error of a run that must not take place
	says    []string // parts of its sentence
}

// TestCases plays the cases that concern a run of one program, against one server at the same time.
func TestCases(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{pooled: true, config: testImages})
	cases := slices.Concat(textCases(), outputCases(), timeCases(), fileCases(), dependencyCases(), engineCases(), bombCases())
	for _, c := range cases {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			if c.play != nil {
				c.play(t, s)
				return
			}
			a := program(c.code)
			maps.Copy(a, c.with)
			r := s.run(t, a)
			c.want.check(t, r)
			if c.also != nil && !t.Failed() {
				c.also(t, s, r)
			}
		})
	}
}

func (o outcome) check(t *testing.T, r result) {
	t.Helper()
	if o.refused != "" {
		o.checkRefusal(t, r)
		return
	}
	if r.isError || r.Error.Type != "" {
		t.Fatalf("could not be run: %+v", r.Error)
	}
	o.checkEnd(t, r)
	if !o.any {
		o.checkOutput(t, r)
	}
}

func (o outcome) checkEnd(t *testing.T, r result) {
	t.Helper()
	if o.status == "" {
		o.status = "ok"
	}
	if r.Status != o.status || r.ExitCode == nil || *r.ExitCode != o.exit || r.Signal != o.signal {
		t.Errorf("got %.4000s; want status %s, exit code %d, signal %q", r.raw, o.status, o.exit, o.signal)
	}
	if !strings.HasPrefix(r.text, o.status+" (") {
		t.Errorf("the text begins %.80q; want the status %s", r.text, o.status)
	}
	if r.Backend != here().Backend || r.RunID == "" || r.DurationMS["total"] <= 0 {
		t.Errorf("the record lacks something: %.1000s", r.raw)
	}
}

func (o outcome) checkOutput(t *testing.T, r result) {
	t.Helper()
	if r.Stdout != o.stdout {
		t.Errorf("stdout is %.2000q, want %.2000q", r.Stdout, o.stdout)
	}
	if o.stderr == "" && r.Stderr != "" || !strings.Contains(r.Stderr, o.stderr) {
		t.Errorf("stderr is %.4000q, want %q", r.Stderr, o.stderr)
	}
	if got := slices.Sorted(slices.Values(r.paths())); !slices.Equal(got, o.files) {
		t.Errorf("files are %q, want %q", got, o.files)
	}
	if len(r.images) != o.images {
		t.Errorf("%d images are shown, want %d", len(r.images), o.images)
	}
	if len(r.links) != len(r.Files) {
		t.Errorf("%d files have %d links", len(r.Files), len(r.links))
	}
}

// checkRefusal wants one plain sentence of the right kind.
func (o outcome) checkRefusal(t *testing.T, r result) {
	t.Helper()
	if !r.isError || r.Error.Type != o.refused {
		t.Fatalf("got %.2000s; want an error of kind %s", r.raw, o.refused)
	}
	sentence := r.Error.Message + "\n" + r.Error.Hint
	for _, part := range o.says {
		if !strings.Contains(sentence, part) {
			t.Errorf("the error is %q; it should say %q", sentence, part)
		}
	}
	if !strings.HasPrefix(r.text, r.Error.Message) {
		t.Errorf("the text is %q; the message is %q", r.text, r.Error.Message)
	}
}

// holds wants parts in a text.
func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%.4000q lacks %q", text, part)
		}
	}
}
