package python

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/boxwright/boxwright/core"
)

// Bounds of what the lasting interpreter may say.
const (
	maxForms     = 64
	maxFormBytes = 2 << 20
	maxHead      = 16 << 10
	maxDescribed = 4 << 20 // bytes of JSON about variables
	maxVariables = 1000
	maxWord      = 400 // bytes of each text about a variable
)

// Answer is how a cell ended.
type Answer struct {
	Code        int // as a program's exit status
	Interrupted bool
	Displays    []core.Display
	Dropped     int      // forms that were too many or too large
	Warnings    []string // one sentence each, plain text

	Lost   bool               // it took the interpreter with it
	Status syscall.WaitStatus // of that; only if it is lost
}

// parseAnswer reads "end TOKEN STATUS SHOWN DROPPED", where a negative status is a signal, and from the file
// what was shown. What cannot be read there is as good as not shown.
func parseAnswer(text, token string, file *os.File) (Answer, bool) {
	fields := strings.Fields(text)
	if len(fields) != 5 || fields[0] != "end" || fields[1] != token {
		return Answer{}, false
	}
	var numbers [3]int
	for i, field := range fields[2:] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return Answer{}, false
		}
		numbers[i] = n
	}
	status, shown, dropped := numbers[0], min(max(0, numbers[1]), maxForms), max(0, numbers[2])
	answer := Answer{Code: status & 0xff, Dropped: dropped}
	if status < 0 {
		answer.Interrupted, answer.Code = true, 128+int(syscall.SIGINT)
	}
	if shown > 0 {
		answer.Displays, answer.Warnings = parseDisplays(file)
		answer.Dropped += max(0, shown-len(answer.Displays)-len(answer.Warnings))
	}
	return answer, true
}

// warning is the kind of a sentence for the record.
const warning = "warning"

// parseDisplays reads a line of JSON, [["text/plain", 12], …], and what it announces.
func parseDisplays(file *os.File) (displays []core.Display, warnings []string) {
	head, rest, _ := bytes.Cut(readAll(file, maxHead+maxFormBytes), []byte("\n"))
	var forms [][2]any
	if len(head) > maxHead || json.Unmarshal(head, &forms) != nil {
		return nil, nil
	}
	for _, form := range forms {
		kind, isText := form[0].(string)
		size, isNumber := form[1].(float64)
		if !isText || !isNumber || size < 0 || size > float64(len(rest)) || len(displays)+len(warnings) == maxForms || !known(kind) {
			return displays, warnings
		}
		if data := rest[:int(size)]; kind == warning {
			warnings = append(warnings, sentence(data))
		} else {
			displays = append(displays, core.Display{MIMEType: kind, Data: data})
		}
		rest = rest[int(size):]
	}
	return displays, warnings
}

func known(kind string) bool {
	switch kind {
	case "text/plain", "text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "application/json", warning:
		return true
	}
	return false
}

// sentence is one line that does nothing to whoever shows it.
func sentence(data []byte) string {
	return strings.Join(strings.Fields(core.PlainText(string(data[:min(len(data), maxWord)]))), " ")
}

// readAll copies at most limit bytes, whatever the file's other owner does meanwhile.
func readAll(file *os.File, limit int64) []byte {
	data, _ := io.ReadAll(io.NewSectionReader(file, 0, limit))
	return data
}

// parseVariables reads [[name, type, shape, size, value], …].
func parseVariables(file *os.File) ([]core.Variable, error) {
	var rows [][]any
	if err := json.Unmarshal(readAll(file, maxDescribed), &rows); err != nil {
		return nil, core.Errorf(core.ErrUnavailable, "the interpreter does not tell its variables")
	}
	var variables []core.Variable
	for _, row := range rows {
		if len(row) != 5 || len(variables) == maxVariables {
			break
		}
		size, _ := row[3].(float64)
		variables = append(variables, core.Variable{
			Name: word(row[0]), Type: word(row[1]), Shape: word(row[2]), Size: int64(max(0, min(size, 1<<50))), Value: word(row[4]),
		})
	}
	return variables, nil
}

func word(value any) string {
	text, _ := value.(string)
	if len(text) > maxWord {
		text = strings.ToValidUTF8(text[:maxWord], "")
	}
	return text
}
