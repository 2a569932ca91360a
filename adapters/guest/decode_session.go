package guest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

// Bounds of what a session may say.
const (
	maxDisplays     = 64
	maxDisplayBytes = 2 << 20 // of all of a run's
	maxListed       = 10000
	maxVariables    = 1000
	maxVariableText = 400 // bytes of a value, and of each word about it
	maxVariableSize = 1 << 50
)

// decodeDisplays keeps what is one of the known forms, and looks like it.
func decodeDisplays(sent []*guestv1.Display) (displays []core.Display, dropped int) {
	left := maxDisplayBytes
	for _, d := range sent {
		data, ok := form(d.GetMimeType(), d.GetData())
		if !ok || len(displays) == maxDisplays || len(data) > left {
			dropped++
			continue
		}
		left -= len(data)
		displays = append(displays, core.Display{MIMEType: d.GetMimeType(), Data: data})
	}
	return displays, dropped
}

// form returns the data of one form as it may be believed, and whether it is one.
func form(kind string, data []byte) ([]byte, bool) {
	switch kind {
	case "text/plain", "text/html", "text/markdown", "image/svg+xml":
		return bytes.ToValidUTF8(data, []byte("?")), true
	case "application/json":
		return data, json.Valid(data)
	case "image/png":
		return data, bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n"))
	case "image/jpeg":
		return data, bytes.HasPrefix(data, []byte("\xff\xd8\xff"))
	}
	return nil, false
}

// decodePiece keeps a piece of output within what was asked for.
func decodePiece(sent *guestv1.ReadOutputResponse, offset, limit int64) core.OutputPiece {
	data, total := pieceOf(sent.GetData(), clamp(sent.GetTotal(), maxOutput), offset, limit)
	return core.OutputPiece{Data: data, Offset: offset, Total: total, Ended: sent.GetEnded()}
}

// decodeVariables keeps what has a name, once each.
func decodeVariables(sent []*guestv1.Variable) (variables []core.Variable) {
	seen := map[string]bool{}
	for _, v := range sent {
		name := line(v.GetName(), maxVariableText)
		if name == "" || name != v.GetName() || seen[name] || len(variables) == maxVariables {
			continue
		}
		seen[name] = true
		variable := core.Variable{
			Name:  name,
			Type:  line(v.GetType(), maxVariableText),
			Size:  clamp(v.GetSize(), maxVariableSize),
			Value: line(v.GetValue(), maxVariableText),
		}
		if shape := v.GetShape(); regexp.MustCompile(`^[0-9]{1,18}(×[0-9]{1,18}){0,31}$`).MatchString(shape) {
			variable.Shape = shape
		}
		variables = append(variables, variable)
	}
	return variables
}

// line makes one line of text, of at most so many bytes, without control characters.
func line(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
