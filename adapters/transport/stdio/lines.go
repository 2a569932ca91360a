package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"

	"github.com/boxwright/boxwright/core"
)

// maxLine bounds a message, in bytes: a program, its input and its files fit, each as long as it may be by default.
const maxLine = 64 << 20

// How much is kept of a line that is too long, to find its id: clients write it first or last.
const (
	keptHead = 4 << 10
	keptTail = 1 << 10
)

// lines hands whole lines on, as the library holds what it reads until a line is whole. One that is longer than most
// is read to its end, refused and forgotten.
type lines struct {
	in     io.Reader
	most   int
	refuse func(head, tail []byte)

	buffer [32 << 10]byte
	ready  [][]byte // parts of whole lines, not yet handed on
	line   [][]byte // parts of the line that comes in
	size   int      // of that line so far
	tail   []byte   // the last of it, once it is too long
	err    error    // that in gave
}

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	for len(l.ready) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.fill()
	}
	n := copy(b, l.ready[0])
	if l.ready[0] = l.ready[0][n:]; len(l.ready[0]) == 0 {
		l.ready[0] = nil // the library has it now
		l.ready = l.ready[1:]
	}
	return n, nil
}

// fill reads once. What comes before the input's end counts as a line.
func (l *lines) fill() {
	n, err := l.in.Read(l.buffer[:])
	for part := range bytes.Lines(l.buffer[:n]) {
		l.add(part)
		if part[len(part)-1] == '\n' {
			l.end()
		}
	}
	if l.err = err; err != nil && l.size > 0 {
		l.end()
	}
}

// add takes a part of a line.
func (l *lines) add(part []byte) {
	before := l.size
	l.size += len(part)
	switch {
	case l.size <= l.most:
		l.line = append(l.line, bytes.Clone(part))
		return
	case before <= l.most: // it is too long from here on
		l.line = [][]byte{head(append(l.line, part))}
		debug.FreeOSMemory() // what the line took so far
	}
	l.tail = append(l.tail, part...)
	l.tail = bytes.Clone(l.tail[max(0, len(l.tail)-keptTail):])
}

// head is the beginning of a line of these parts.
func head(parts [][]byte) []byte {
	var kept []byte
	for _, part := range parts {
		kept = append(kept, part[:min(len(part), keptHead-len(kept))]...)
	}
	return kept
}

// end is that of a line.
func (l *lines) end() {
	if l.size > l.most {
		l.refuse(l.line[0], l.tail)
	} else {
		l.ready = append(l.ready, l.line...)
	}
	l.line, l.size, l.tail = nil, 0, nil
}

// lastID is an id with which a message ends.
var lastID = regexp.MustCompile(`[,{]\s*"id"\s*:\s*(-?\d+|"(?:[^"\\]|\\.)*")\s*\}\s*$`)

// idOf is the id of a message of which these parts are known; null if it is in neither.
func idOf(head, tail []byte) json.RawMessage {
	if id := firstID(head); id != nil {
		return id
	}
	if found := lastID.FindSubmatch(tail); found != nil && json.Valid(found[1]) {
		return found[1]
	}
	return json.RawMessage("null")
}

// firstID is the id that comes before anything long; nil is none.
func firstID(head []byte) json.RawMessage {
	read := json.NewDecoder(bytes.NewReader(head))
	if begin, err := read.Token(); err != nil || begin != json.Delim('{') {
		return nil
	}
	for {
		name, err := read.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if read.Decode(&value) != nil {
			return nil
		}
		if name == "id" && value[0] != '{' && value[0] != '[' {
			return value
		}
	}
}

// longAnswer is the line that refuses a message that is too long.
func longAnswer(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"the message is longer than %s; write big files in parts"}}`+"\n",
		id, core.FormatBytes(maxLine))
}
