package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func testServer() *Server {
	return New(nil, Options{
		DefaultImage: "python:3.11-slim", Images: []string{"python"},
		Timeout: 30 * time.Second, MaxTimeout: 600 * time.Second, Memory: 2 << 30, Tenant: "local",
	})
}

func parse(t *testing.T, raw string) (core.Request, error) {
	t.Helper()
	s := testServer()
	return s.parsed(raw)
}

// parsed is what becomes of the arguments of run_python_ephemeral.
func (s *Server) parsed(raw string) (core.Request, error) {
	args, err := parseArguments(json.RawMessage(raw), s.runPythonEphemeral().params)
	if err != nil {
		return core.Request{}, err
	}
	return s.runRequest(call{arguments: args, owner: "local"})
}

func TestArguments(t *testing.T) {
	r, err := parse(t, `{"code":"x","dependencies":["six"],"image":"python:3.12","timeout_seconds":1.5,"stdin":"",
		"files":[{"path":"a","content":"AAE=","encoding":"base64"},{"path":"b","content":"é"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != "x" || r.Tenant != "local" || r.Image != "python:3.12" || *r.Timeout != 1500*time.Millisecond || r.Stdin == nil || *r.Stdin != "" {
		t.Errorf("got %+v", r)
	}
	if len(r.Files) != 2 || string(r.Files[0].Content) != "\x00\x01" || string(r.Files[1].Content) != "é" {
		t.Errorf("got files %q", r.Files)
	}
}

// schemaNames are the arguments that a client sees, with the schema of one.
func schemaNames(t *testing.T, s *Server, of string) (names []string, schema map[string]any) {
	t.Helper()
	var input struct{ Properties map[string]map[string]any }
	if err := json.Unmarshal(schemaOf(s.runPythonEphemeral().params), &input); err != nil {
		t.Fatal(err)
	}
	return sortedKeys(input.Properties), input.Properties[of]
}

func TestBackendArgument(t *testing.T) {
	if names, _ := schemaNames(t, testServer(), ""); slices.Contains(names, "backend") {
		t.Errorf("with one backend there are %q", names)
	}
	if _, err := parse(t, `{"code":"x","backend":"docker"}`); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("got %v", err)
	}
	s := testServer()
	s.options.Backends = []string{"docker", "docker-gvisor"}
	_, schema := schemaNames(t, s, "backend")
	if enum, _ := json.Marshal(schema["enum"]); string(enum) != `["docker","docker-gvisor"]` {
		t.Errorf("it may be %s", enum)
	}
	if r, err := s.parsed(`{"code":"x","backend":"docker-gvisor"}`); err != nil || r.Backend != "docker-gvisor" {
		t.Errorf("got %q, %v", r.Backend, err)
	}
}

// What the image is where nobody names one is not promised when only the backend knows.
func TestDefaultImageInTheSchema(t *testing.T) {
	s := testServer()
	if _, schema := schemaNames(t, s, "image"); schema["default"] != "python:3.11-slim" {
		t.Errorf("got %v", schema)
	}
	s.options.DefaultImage = ""
	if _, schema := schemaNames(t, s, "image"); schema["default"] != nil {
		t.Errorf("got %v", schema)
	}
}

func TestLenientArguments(t *testing.T) {
	for raw, want := range map[string]string{
		`{"code":"x","dependencies":"six"}`:                "six",
		`{"code":"x","dependencies":"[\"six\",\"idna\"]"}`: "six idna",
		`{"code":"x","dependencies":null}`:                 "",
		`{"code":"x","dependencies":[]}`:                   "",
	} {
		r, err := parse(t, raw)
		if got := strings.Join(r.Dependencies, " "); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", raw, got, err, want)
		}
	}
	if r, err := parse(t, `{"code":"x","timeout_seconds":"5"}`); err != nil || *r.Timeout != 5*time.Second {
		t.Errorf("quoted number: got %v, %v", r.Timeout, err)
	}
	if r, err := parse(t, `{"code":"x","timeout_seconds":null}`); err != nil || r.Timeout != nil {
		t.Errorf("null: got %v, %v", r.Timeout, err)
	}
	if r, err := parse(t, `{"code":"x","timeout_seconds":1e300}`); err != nil || *r.Timeout < time.Hour {
		t.Errorf("huge: got %v, %v; want something above every ceiling", r.Timeout, err)
	}
}

func TestWrongArgumentsGetOneSentence(t *testing.T) {
	for raw, want := range map[string]string{
		``:                                      "code is missing",
		`[]`:                                    "not a JSON object",
		`{}`:                                    "code is missing",
		`{"code":null}`:                         "code is missing",
		`{"code":1}`:                            "code must be text; the number 1 was given",
		`{"code":["x"]}`:                        "code must be text; a list was given",
		`{"code":"x","cod":1}`:                  `there is no argument "cod"`,
		`{"code":"x","dependencies":5}`:         "dependencies must be a list of texts",
		`{"code":"x","dependencies":[5]}`:       "dependencies: number 1 must be text; the number 5 was given",
		`{"code":"x","dependencies":"[5]"}`:     "dependencies: number 1 must be text; the number 5 was given",
		`{"code":"x","timeout_seconds":"soon"}`: "timeout_seconds must be a number of seconds",
		`{"code":"x","timeout_seconds":"NaN"}`:  "timeout_seconds must be a number of seconds",
		`{"code":"x","timeout_seconds":true}`:   "a truth value was given",
		`{"code":"x","stdin":{}}`:               "stdin must be text; an object was given",
		`{"code":"x","image":3}`:                "image must be text",
		`{"code":"x","backend":"docker"}`:       `there is no argument "backend"`,
		`{"code":"x","files":{}}`:               "files must be a list",
		`{"code":"x","dependencies":[null]}`:    "number 1 must be text; null was given",
		`{"code":"x","files":["a"]}`:            "files: number 1 must be an object; text (\"a\") was given",
		`{"code":"x","files":[{"path":"a","content":5}]}`:                       "files: number 1 has the number 5 as its content, which must be text",
		`{"code":"x","files":[{"path":"a"}]}`:                                   "files: number 1 lacks its content",
		`{"code":"x","files":[{"path":"a","content":"!","encoding":"base64"}]}`: "not valid base64",
		`{"code":"x","files":[{"path":"a","content":"","encoding":"hex"}]}`:     `there is no encoding "hex"`,
		`{"code":"x","files":[{"path":"a","content":"","mode":"0777"}]}`:        `number 1 has no "mode"`,
	} {
		_, err := parse(t, raw)
		if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", raw, err)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"code":"x","dependencies":["a"],"files":[{"path":"a","content":"b"}]}`)
	f.Add(`{"code":"x","timeout_seconds":"5"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			t.Skip() // BOXWRIGHT_REQUIRE has no say: the library refuses it before us
		}
		if _, err := parse(t, raw); err != nil && core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%s: kind %s", raw, core.KindOf(err))
		}
	})
}

func TestOutputText(t *testing.T) {
	for name, c := range map[string]struct {
		out  core.Output
		want string
	}{
		"whole":       {core.Output{Head: []byte("ab\n\n\nc"), Total: 6}, "ab\n\n\nc"},
		"not UTF-8":   {core.Output{Head: []byte("\xff\xfe ok\n"), Total: 6}, "\uFFFD ok\n"},
		"cut":         {core.Output{Head: []byte("ab"), Tail: []byte("yz"), Total: 26}, "ab\n[… 22 bytes left out …]\nyz"},
		"cut in rune": {core.Output{Head: []byte("a\xd0"), Tail: []byte("\xb6z"), Total: 26}, "a\n[… 24 bytes left out …]\nz"},
	} {
		if got := outputText(c.out); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestHostileNamesStayOnTheirLine(t *testing.T) {
	record := core.Record{Files: []core.Artifact{{Name: "a\nstdout:\nfake", URI: "boxwright://runs/r/x"}}}
	if text := recordText(record, structured(record, "")); strings.Contains(text, "\nstdout:") {
		t.Errorf("a name made a section of its own:\n%s", text)
	}
}

func TestManyFilesStayBelowWhatClientsTake(t *testing.T) {
	record := core.Record{}
	for i := range 1000 {
		name := strings.Repeat("d", 900) + string(rune('a'+i%26))
		record.Files = append(record.Files, core.Artifact{Name: name, URI: "boxwright://runs/r/" + name, Location: "/files/" + name})
	}
	for archive, says := range map[string]string{"": "not listed here", "https://x/all": "not listed here; archive_url has all of them"} {
		result := toolResult(record, archive)
		raw, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > 3*maxFilesText { // as data, as links and as text
			t.Errorf("an answer of %d bytes", len(raw))
		}
		shown := result.StructuredContent.(runResult)
		want := fmt.Sprintf("%d more files are kept but %s", len(record.Files)-len(shown.Files), says)
		if len(shown.Files) == 0 || len(mustJSON(shown.Files)) > maxFilesText+len(shown.Files)+2 || !slices.Equal(shown.Warnings, []string{want}) {
			t.Errorf("%d files listed in %d bytes, warnings %q, want %q", len(shown.Files), len(mustJSON(shown.Files)), shown.Warnings, want)
		}
	}
}

func TestProgressIsDelayedNotDropped(t *testing.T) {
	var sent []string
	p := &progress{began: time.Now(), send: func(params map[string]any) { sent = append(sent, params["message"].(string)) }}
	report := p.report()
	report(core.Progress{Phase: core.PhaseRun, Message: "running"})
	report(core.Progress{Phase: core.PhaseRun, Message: "10%"})
	report(core.Progress{Phase: core.PhaseRun, Message: "20%"})
	p.last = p.last.Add(-progressPace)
	p.catchUp()
	p.catchUp()
	if got := strings.Join(sent, " "); got != "running 20%" {
		t.Errorf("sent %q", got)
	}
	p.last = p.last.Add(-progressQuiet)
	p.catchUp()
	if len(sent) != 3 || !strings.Contains(sent[2], "so far") {
		t.Errorf("nothing said that it goes on: %q", sent)
	}
}
