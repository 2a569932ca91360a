package python

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// file is what an interpreter may have written its answer to.
func file(t *testing.T, text string) *os.File {
	t.Helper()
	f, err := memory([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestAnswer(t *testing.T) {
	shown := file(t, "[[\"text/plain\", 1], [\"text/html\", 3]]\n1<b>rest")
	displays := []core.Display{{MIMEType: "text/plain", Data: []byte("1")}, {MIMEType: "text/html", Data: []byte("<b>")}}
	for text, want := range map[string]Answer{
		"end t 0 0 0":   {},
		"end t 3 2 1":   {Code: 3, Displays: displays, Dropped: 1},
		"end t -2 0 0":  {Code: 130, Interrupted: true},
		"end t 257 5 0": {Code: 1, Displays: displays, Dropped: 3},
		"end t -9 0 -4": {Code: 130, Interrupted: true},
	} {
		if got, ok := parseAnswer(text, "t", shown); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"", "end", "end u 0 0 0", "end t 0 0", "end t x 0 0", "end t 0 0 0 0", "variables - 0", "end t 0 0 99999999999999999999"} {
		if got, ok := parseAnswer(text, "t", shown); ok {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}

func TestHostileDisplays(t *testing.T) {
	for _, text := range []string{
		"", "\n", "{}\n", "[[]]\n", `[["text/plain", 9]]` + "\nshort", `[["text/plain", -1]]` + "\nx", `[["text/plain", 1e99]]` + "\nx",
		`[["text/x", 1]]` + "\nx", `[[1, "a"]]` + "\nx", strings.Repeat(" ", maxHead+1) + "[]\n", strings.Repeat("[", 10000),
	} {
		if got, warnings := parseDisplays(file(t, text)); len(got)+len(warnings) > 0 {
			t.Errorf("%.40q shows %+v %q", text, got, warnings)
		}
	}
	many := "[" + strings.Repeat(`["text/plain", 0], `, 100) + `["text/plain", 0]]` + "\n"
	if got, _ := parseDisplays(file(t, many)); len(got) != maxForms {
		t.Errorf("%d forms", len(got))
	}
}

func TestHostileVariables(t *testing.T) {
	long := `["x", "` + strings.Repeat("ж", 1000) + `", null, 1e300, 5]`
	got, err := parseVariables(file(t, `[["n", "int", "", 28, "5"], `+long+`, ["short"], ["m", "int", "", 28, "5"]]`))
	if err != nil || len(got) != 2 || got[0] != (core.Variable{Name: "n", Type: "int", Size: 28, Value: "5"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got[1].Size != 1<<50 || len(got[1].Type) > maxWord || got[1].Shape != "" {
		t.Errorf("got %+v", got[1])
	}
	for _, text := range []string{"", "{}", "[1]", "[[" + strings.Repeat(" ", maxDescribed)} {
		if got, err := parseVariables(file(t, text)); core.KindOf(err) != core.ErrUnavailable {
			t.Errorf("%.20q: got %+v, %v", text, got, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("end t 0 1 0", "[[\"text/plain\", 1]]\n1")
	f.Fuzz(func(t *testing.T, text, content string) {
		answer, ok := parseAnswer(text, "t", file(t, content))
		if ok && (answer.Code < 0 || answer.Code > 255 || answer.Dropped < 0 || len(answer.Displays) > maxForms) {
			t.Errorf("got %+v", answer)
		}
		for _, d := range answer.Displays {
			if !known(d.MIMEType) || len(d.Data) > maxFormBytes+maxHead {
				t.Errorf("got %q with %d bytes", d.MIMEType, len(d.Data))
			}
		}
		if variables, err := parseVariables(file(t, content)); err == nil && len(variables) > maxVariables {
			t.Errorf("%d variables", len(variables))
		}
	})
}

// TestWarnings: a warning is no display, and nothing in it does anything to who reads it.
func TestWarnings(t *testing.T) {
	text := "numpy 1 is\n\x1b[31mimported"
	head := fmt.Sprintf(`[["warning", %d], ["text/plain", 1]]`+"\n", len(text))
	got, ok := parseAnswer("end t 0 2 0", "t", file(t, head+text+"7"))
	want := Answer{Warnings: []string{"numpy 1 is imported"}, Displays: []core.Display{{MIMEType: "text/plain", Data: []byte("7")}}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	long := file(t, fmt.Sprintf(`[["warning", %d]]`+"\n%s", 5000, strings.Repeat("x", 5000)))
	if got, _ := parseAnswer("end t 0 1 0", "t", long); len(got.Warnings) != 1 || len(got.Warnings[0]) != maxWord {
		t.Errorf("a long warning is %q", got.Warnings)
	}
}
