package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestTranscripts plays the conversations of testdata/mcp, over each transport. In each file, "in" is what the client
// sends, a JSON-RPC message a line; "out" is what the server answers, without what differs from
// run to run. A request is sent when the one before it has been answered. Lines of "in" that begin
// with # direct the play:
//
//	# nowait       the next request is not waited for
//	# progress     wait for a message of progress
//	# answer ID    wait for the answer to an earlier request
//
// "config", if there is one, is the settings file.
func TestTranscripts(t *testing.T) {
	require(t, "engine")
	files, err := filepath.Glob("../testdata/mcp/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sections := map[string]*txtar.File{}
			for i := range archive.Files {
				sections[archive.Files[i].Name] = &archive.Files[i]
			}
			config := ""
			if sections["config"] != nil {
				config = string(sections["config"].Data)
			}
			got := converse(t, connect(t, setup{pooled: true, config: config}), string(sections["in"].Data))
			for _, way := range otherWays(t) {
				if other := converse(t, connect(t, setup{pooled: true, config: config, transport: way}), string(sections["in"].Data)); !bytes.Equal(placeless(got), placeless(other)) {
					t.Errorf("over %s it goes another way:\n%s\nwhere it is on stdio\n%s", way, other, got)
				}
			}
			if *update {
				sections["out"].Data = got
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := sections["out"].Data; !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// otherWays are those besides stdio, which are the same code wherever boxes live.
func otherWays(t *testing.T) []string {
	if theOnePlace(t) != here().Name {
		return nil
	}
	return []string{overStreamable, overSSE}
}

// converse plays the client's lines and returns the answers in the order in which they were waited for.
func converse(t *testing.T, w *wire, script string) []byte {
	t.Helper()
	var out bytes.Buffer
	run, nowait := "", false
	answer := func(id string) {
		line := w.await(t, id).line
		if m := regexp.MustCompile(`"run_id":"([a-z0-9]+)"`).FindSubmatch(line); m != nil {
			run = string(m[1])
		}
		out.Write(normal(t, w, line))
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		command, argument, _ := strings.Cut(strings.TrimPrefix(line, "# "), " ")
		switch {
		case line == "":
		case line == "# nowait":
			nowait = true
		case line == "# progress":
			w.awaitMessage(t, "progress", func(m message) bool { return m.Method == "notifications/progress" })
		case command == "answer":
			answer(argument)
		case strings.HasPrefix(line, "#"):
			t.Fatalf("no such direction: %s", line)
		default:
			w.sendf(t, "%s", strings.ReplaceAll(line, "$RUN", run))
			var m message
			_ = json.Unmarshal([]byte(line), &m) // a transcript may send what is no JSON
			if m.ID != nil && !nowait {
				answer(string(m.ID))
			}
			nowait = false
		}
	}
	return out.Bytes()
}

// normal is a message as indented JSON with sorted keys, without what differs from run to run.
func normal(t *testing.T, w *wire, line []byte) []byte {
	t.Helper()
	text := undeclared(strings.ReplaceAll(string(line), w.dir, "$STATE"))
	for _, r := range []struct{ from, to string }{
		{`\b[a-z0-9]{26}\b`, `$$RUN`},
		{` in [0-9]+\.[0-9]+ s`, ` in … s`},
		{`"(queue|image|dependencies|box|run|collect|total)":[0-9.]+(e-[0-9]+)?`, `"$1":0`},
		{`"version":"[^"]*"`, `"version":"…"`},
		{`"backend":"` + here().Backend + `"`, `"backend":"$$BACKEND"`},
	} {
		text = regexp.MustCompile(r.from).ReplaceAllString(text, r.to)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// placeless is without where people find files: a path of this machine on stdio, a link over HTTP.
func placeless(out []byte) []byte {
	for _, place := range []string{`\\n- all of them as a ZIP archive at http[^"\\]*`, `"archive_url": "[^"]*",\s+`, ` at (\$STATE|http://[0-9.:]+)/files/[^"\\]*`, `,\s+"url": "[^"]*"`} {
		out = regexp.MustCompile(place).ReplaceAll(out, nil)
	}
	return out
}

// undeclared is a message without the warnings that every result of this place has, in the text
// and in the structured content.
func undeclared(text string) string {
	for _, warning := range here().declared {
		for _, r := range []struct{ from, to string }{
			{`\n\nwarnings:\n` + warning + `"`, `"`},
			{warning + `\n`, ""},
			{`,"warnings":["` + warning + `"]`, ""},
			{`"` + warning + `",`, ""},
		} {
			text = strings.ReplaceAll(text, r.from, r.to)
		}
	}
	return text
}
