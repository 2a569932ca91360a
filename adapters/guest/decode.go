package guest

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

// Bounds of what an exit may say.
const (
	maxFiles        = 1000
	maxFileSize     = 1 << 50 // bytes
	maxPath         = 4096
	maxElement      = 255
	maxWarnings     = 50
	maxWarning      = 500                // bytes
	maxTime         = 253402300799999999 // the last microsecond of the year 9999
	maxDuration     = 365 * 24 * time.Hour
	maxOutput       = 1 << 50
	unknownExitCode = 255
)

// decodeExit turns what a box says about a run into what may be believed: every number is in its range,
// every name is one, nothing is longer than was asked for.
func decodeExit(e *guestv1.Exit, asked core.OutputLimits) core.Exit {
	exit := core.Exit{
		Code:      int(e.GetCode()),
		Signal:    e.GetSignal(),
		TimedOut:  e.GetTimedOut(),
		Cancelled: e.GetCancelled(),
		OOMKilled: e.GetOomKilled(),
		StateLost: e.GetStateLost(),
		Stdout:    decodeOutput(e.GetStdout(), asked),
		Stderr:    decodeOutput(e.GetStderr(), asked),
		Duration:  min(max(0, time.Duration(clamp(e.GetDurationUs(), int64(maxDuration/time.Microsecond)))*time.Microsecond), maxDuration),
	}
	if exit.Code < 0 || exit.Code > 255 {
		exit.Code = unknownExitCode
	}
	if exit.Signal != "" && !regexp.MustCompile(`^SIG[A-Z0-9+]{1,12}$`).MatchString(exit.Signal) {
		exit.Signal = "SIGNAL"
	}
	var dropped int
	exit.Files, dropped = decodeFiles(e.GetFiles(), maxFiles)
	exit.Warnings = decodeWarnings(e.GetWarnings())
	if dropped > 0 {
		exit.Warnings = append(exit.Warnings, fmt.Sprintf("%d files with impossible names or too many are not returned", dropped))
	}
	exit.Displays, dropped = decodeDisplays(e.GetDisplays())
	if dropped > 0 {
		exit.Warnings = append(exit.Warnings, fmt.Sprintf("%d displayed values are of no known form or too many and are not shown", dropped))
	}
	return exit
}

func clamp(n, most int64) int64 { return max(0, min(n, most)) }

func decodeOutput(o *guestv1.Output, asked core.OutputLimits) core.Output {
	head, tail := o.GetHead(), o.GetTail()
	mostHead, mostTail := max(0, asked.Head), max(0, asked.Tail)
	if len(tail) == 0 {
		mostHead += mostTail // nothing was cut: all of it is in head
	}
	total := clamp(max(o.GetTotal(), int64(len(head))+int64(len(tail))), maxOutput)
	if over := int64(len(head)) - mostHead; over > 0 {
		head = head[:mostHead]
	}
	if over := int64(len(tail)) - mostTail; over > 0 {
		tail = tail[over:]
	}
	return core.Output{Head: head, Tail: tail, Total: total, Spilled: clamp(o.GetSpilled(), min(total, max(0, asked.Spill)))}
}

func decodeFiles(sent []*guestv1.FileInfo, most int) (files []core.FileInfo, dropped int) {
	seen := map[string]bool{}
	for _, file := range sent {
		path := string(file.GetPath())
		if len(files) == most || seen[path] || !plain(path) {
			dropped++
			continue
		}
		seen[path] = true
		files = append(files, core.FileInfo{Path: path, Size: clamp(file.GetSize(), maxFileSize)})
	}
	return files, dropped
}

// decodeEntries keeps what lies in a folder as it may be believed.
func decodeEntries(sent []*guestv1.FileEntry) (entries []core.FileEntry, dropped int) {
	seen := map[string]bool{}
	for _, file := range sent {
		path := string(file.GetPath())
		if len(entries) == maxListed || seen[path] || !plain(path) {
			dropped++
			continue
		}
		seen[path] = true
		entry := core.FileEntry{
			Path: path, Kind: core.FileOther,
			Modified: time.UnixMicro(clamp(file.GetModifiedUs(), maxTime)).UTC(),
		}
		switch kind := core.FileKind(file.GetKind()); kind {
		case core.FileRegular:
			entry.Kind, entry.Size = kind, clamp(file.GetSize(), maxFileSize)
		case core.FileFolder, core.FileLink, core.FileOther:
			entry.Kind = kind
		}
		entries = append(entries, entry)
	}
	return entries, dropped
}

// decodeFilePiece keeps a piece of a file within what was asked for.
func decodeFilePiece(sent *guestv1.ReadFileResponse, offset, limit int64) core.FilePiece {
	data, total := pieceOf(sent.GetData(), clamp(sent.GetSize(), maxFileSize), offset, limit)
	return core.FilePiece{Data: data, Offset: offset, Total: total}
}

// plain reports whether path is relative, has no empty, "." or ".." part, and is no longer than Linux
// allows.
func plain(path string) bool {
	if path == "" || len(path) > maxPath || strings.ContainsRune(path, 0) {
		return false
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || element == "." || element == ".." || len(element) > maxElement {
			return false
		}
	}
	return true
}

func decodeWarnings(sent []string) []string {
	var warnings []string
	for _, text := range sent {
		if len(warnings) == maxWarnings {
			break
		}
		if text = line(text, maxWarning); strings.TrimSpace(text) != "" {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// pieceOf keeps a piece within what was asked for, and what it is a piece of no shorter than it.
func pieceOf(data []byte, total, offset, limit int64) ([]byte, int64) {
	if int64(len(data)) > limit {
		data = data[:limit]
	}
	if len(data) > 0 {
		total = max(total, offset+int64(len(data)))
	}
	return data, total
}
