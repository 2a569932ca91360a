package mcp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// Bounds of one answer of list_files. Clients drop answers that are too long.
const (
	maxEntries     = 500
	maxEntriesText = 100 << 10 // bytes of paths
)

// entryResult is what lies in a folder, as clients see it.
type entryResult struct {
	Path     string        `json:"path"`
	Kind     core.FileKind `json:"kind"`
	Size     int64         `json:"size"`
	Modified string        `json:"modified"`
	NotUTF8  bool          `json:"not_utf8,omitempty"`
}

// listingResult shows as much as one answer may hold, and says if that is not all.
func listingResult(found core.FileListing) *mcp.CallToolResult {
	results, lines, room := []entryResult{}, []string{}, maxEntriesText
	for _, e := range found.Entries {
		if room -= len(e.Path); room < 0 || len(results) == maxEntries {
			break
		}
		result := entryResult{Path: core.PrintablePath(e.Path), Kind: e.Kind, Size: e.Size, Modified: stamp(e.Modified), NotUTF8: !utf8.ValidString(e.Path)}
		results = append(results, result)
		lines = append(lines, result.line())
	}
	left := len(found.Entries) - len(results)
	switch {
	case found.Cut:
		lines = append(lines, fmt.Sprintf("The list is cut: there are at least %d more. Name a folder in path to see what is in it.", left+1))
	case left > 0:
		lines = append(lines, fmt.Sprintf("The list is cut: there are %d more. Name a folder in path to see what is in it.", left))
	case len(lines) == 0:
		lines = append(lines, "There is nothing in it.")
	}
	return structuredResult(strings.Join(lines, "\n"), map[string]any{
		"sandbox_id": found.Session, "files": results, "cut": found.Cut || left > 0,
	})
}

func (r entryResult) line() string {
	text := "- " + shownName(r.Path)
	switch r.Kind {
	case core.FileRegular:
		text += " (" + byteCount(r.Size)
	case core.FileFolder:
		text += "/ (folder"
	case core.FileLink:
		text += " (link"
	case core.FileOther:
		text += " (neither file nor folder"
	}
	return text + ", " + r.Modified + ")"
}

// readResult is a part of a file as clients see it.
type readResult struct {
	Sandbox  string  `json:"sandbox_id"`
	Path     string  `json:"path"`
	MIMEType string  `json:"mime_type"`
	Encoding string  `json:"encoding"`
	Content  *string `json:"content,omitempty"`
	Offset   int64   `json:"offset"`
	Next     int64   `json:"next_offset"`
	Total    int64   `json:"total_bytes"`
	Exact    bool    `json:"exact"`
}

// contentResult shows an image as one, and what is asked for of other files.
func contentResult(path string, c core.FileContent, encoding string) *mcp.CallToolResult {
	r := readResult{Sandbox: c.Session, Path: path, MIMEType: c.MIMEType, Offset: c.Piece.Offset, Total: c.Piece.Total, Exact: true}
	if p := c.Preview; p != nil {
		r.Encoding, r.Next, r.Exact = "image", r.Total, !p.Shrunk
		head := fmt.Sprintf("%s (%s, %s)", shownName(path), c.MIMEType, byteCount(r.Total))
		if p.Shrunk {
			head += " (shown smaller than it is)"
		}
		result := structuredResult(head, r)
		result.Content = append(result.Content, mcp.NewImageContent(base64.StdEncoding.EncodeToString(p.Data), p.MIMEType))
		return result
	}
	r.take(c.Piece, encoding)
	head := fmt.Sprintf("bytes %d to %d of %d, as %s", r.Offset, r.Next, r.Total, r.Encoding)
	if !r.Exact {
		head += "; what is not plain text is replaced, encoding base64 returns the exact bytes"
	}
	return structuredResult(head+"\n\n"+*r.Content, r)
}

// take puts a piece in as text, if that is asked for or it is UTF-8. Characters that its ends cut are left to the
// pieces before and after it.
func (r *readResult) take(piece core.FilePiece, encoding string) {
	data, skipped := piece.Data, 0
	if piece.Offset > 0 {
		data = wholeTail(data)
		skipped = len(piece.Data) - len(data)
	}
	if piece.Offset+int64(len(piece.Data)) < piece.Total {
		data = wholeRunes(data)
	}
	if isUTF8 := utf8.Valid(data) && bytes.IndexByte(data, 0) < 0; encoding == "text" || encoding == "" && isUTF8 {
		text := core.PlainText(string(data))
		r.Encoding, r.Content, r.Exact = "text", &text, text == string(data)
		r.Offset += int64(skipped)
	} else {
		data = piece.Data
		r.Encoding, r.Content = "base64", new(base64.StdEncoding.EncodeToString(data))
	}
	r.Next = r.Offset + int64(len(data))
}
