package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

func TestShownValuesAreBounded(t *testing.T) {
	display := func(text string) core.Display { return core.Display{MIMEType: "text/plain", Data: []byte(text)} }
	long := strings.Repeat("x", maxShown-1)
	for name, c := range map[string]struct {
		displays []core.Display
		want     string
	}{
		"none":              {nil, ""},
		"in their order":    {[]core.Display{display("a"), {MIMEType: "text/html", Data: []byte("<b>")}, display("b")}, "a\nb"},
		"as much as fits":   {[]core.Display{display("a"), display(long)}, "a\n" + long},
		"the last has room": {[]core.Display{display("a"), display("b"), display(long), display("c")}, "… (2 values before are not shown here)\n" + long + "\nc"},
		"one that is long":  {[]core.Display{display(long + "yz")}, long + "y…"},
	} {
		if got := shownValues(c.displays); got != c.want {
			t.Errorf("%s: got %d bytes, %.60q, want %d, %.60q", name, len(got), got, len(c.want), c.want)
		}
	}
}

func TestPieceSaysWhatIsGone(t *testing.T) {
	for _, c := range []struct {
		piece core.OutputPiece
		says  string
	}{
		{core.OutputPiece{Data: []byte("ab"), Total: 10, Kept: 10}, "bytes 0 to 2 of 10; more may come\n"},
		{core.OutputPiece{Data: []byte("ab"), Total: 10, Kept: 10, Ended: true}, "bytes 0 to 2 of 10; the run has ended\n"},
		{core.OutputPiece{Data: []byte("ab"), Total: 10, Kept: 2, Ended: true}, "bytes 0 to 2 of 10; the run has ended; what was printed after the first 2 bytes is gone\n"},
	} {
		result := pieceResult(c.piece)
		if text := result.Content[0].(mcp.TextContent).Text; !strings.HasPrefix(text, c.says) {
			t.Errorf("got %q, want %q", text, c.says)
		}
		if kept := result.StructuredContent.(map[string]any)["kept_bytes"]; kept != c.piece.Kept {
			t.Errorf("kept_bytes is %v, want %d", kept, c.piece.Kept)
		}
	}
}

// TestSent: a program that has no room for all of its input is told apart from one that has.
func TestSent(t *testing.T) {
	for _, c := range []struct {
		taken, all int64
		end        bool
		want       string
	}{
		{5, 5, true, "5 bytes sent."},
		{3, 5, false, "Only the first 3 bytes of 5 were sent: the program does not read its input, and there is no room for the others. " +
			"Send them again once it reads."},
		{0, 5, true, "Only the first 0 bytes of 5 were sent: the program does not read its input, and there is no room for the others. " +
			"Send them again once it reads; its input has not been ended."},
	} {
		result := sent(c.taken, c.all, c.end)
		text, _ := result.Content[0].(mcp.TextContent)
		if fields, _ := result.StructuredContent.(map[string]any); text.Text != c.want || fields["sent_bytes"] != c.taken {
			t.Errorf("%d of %d: %q, %v", c.taken, c.all, text.Text, result.StructuredContent)
		}
	}
}

// TestManyVariables: what is listed is bounded in its number and its bytes, and the answer says how many are not there.
func TestManyVariables(t *testing.T) {
	for name, c := range map[string]struct {
		count int
		value string
		want  int
	}{
		"all of them":     {maxVariables, "1", maxVariables},
		"too many":        {5000, "1", maxVariables},
		"too long as one": {300, strings.Repeat("<", 300), 33}, // JSON writes each as six bytes
	} {
		result := variablesResult(slices.Repeat([]core.Variable{{Name: "x", Type: "str", Value: c.value}}, c.count), nil)
		shown := result.StructuredContent.(map[string]any)
		listed := shown["variables"].([]variableResult)
		text := result.Content[0].(mcp.TextContent).Text
		says := fmt.Sprintf("The list is cut: it has the first %d.", c.want)
		if len(listed) != c.want || shown["cut"] != (c.count > c.want) || strings.Contains(text, says) != (c.count > c.want) {
			t.Errorf("%s: listed are %d, want %d, cut is %v; the text ends %.100q", name, len(listed), c.want, shown["cut"], text[max(0, len(text)-100):])
		}
		if size := len(mustJSON(shown)); size > maxVariablesText+len(listed)+100 {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}
