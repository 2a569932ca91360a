package executiontest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

var update = flag.Bool("update", false, "rewrite the list of promises in docs/plugins.md")

const (
	listBegins = "<!-- promises: written by the suite's test, with -update -->\n"
	listEnds   = "<!-- end of promises -->\n"
)

// TestGuideListsThePromises compares the author's guide with the suite.
func TestGuideListsThePromises(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "plugins.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := bytes.Cut(text, []byte(listBegins))
	_, after, ends := bytes.Cut(rest, []byte(listEnds))
	if !begins || !ends {
		t.Fatalf("%s has no place for the promises", path)
	}
	want := string(before) + listBegins + promises() + listEnds + string(after)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s does not list the suite's sentences: run this test with -update", path)
	}
}

// promises is one table: check and sentence.
func promises() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| check | promise |\n| --- | --- |\n")
	for _, c := range executiontest.Checks() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, c.Clause)
	}
	return b.String() + "\n"
}
