package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// fileCases answers calls on files with what it is told to, and remembers what was asked.
type fileCases struct {
	UseCases
	content core.FileContent
	asked   string
}

func (f *fileCases) ListFiles(_ context.Context, r core.FileRequest, recursive bool) (core.FileListing, error) {
	f.asked = fmt.Sprint(r, recursive)
	return core.FileListing{Session: "s"}, nil
}

func (f *fileCases) ReadFile(_ context.Context, r core.FileRequest, offset, limit int64, picture bool) (core.FileContent, error) {
	f.asked = fmt.Sprint(r, offset, limit, picture)
	return f.content, nil
}

func (f *fileCases) WriteFile(_ context.Context, r core.FileRequest, content []byte, _ func(core.Progress)) (string, error) {
	f.asked = fmt.Sprintf("%v %q", r, content)
	return "s", nil
}

func (f *fileCases) DeleteFile(_ context.Context, r core.FileRequest) (string, error) {
	f.asked = fmt.Sprint(r)
	return "s", nil
}

// ask calls a tool as a client does.
func ask(t *testing.T, cases UseCases, name, arguments string) error {
	t.Helper()
	s := testServer()
	s.cases = cases
	for _, tool := range s.fileTools() {
		if tool.name != name {
			continue
		}
		args, err := parseArguments(json.RawMessage(arguments), tool.params)
		if err != nil {
			return err
		}
		_, err = tool.handle(t.Context(), call{arguments: args, owner: "local", client: "c"})
		return err
	}
	t.Fatalf("there is no tool %s", name)
	return nil
}

func TestFileArguments(t *testing.T) {
	for _, c := range []struct{ tool, arguments, asked string }{
		{"list_files", `{}`, "{  local c} false"},
		{"list_files", `{"path":"d","sandbox_id":"x","recursive":true}`, "{x d local c} true"},
		{"read_file", `{"path":"a"}`, "{ a local c} 0 32768 true"},
		{"read_file", `{"path":"a","offset":1,"limit":4}`, "{ a local c} 1 4 false"},
		{"read_file", `{"path":"a","encoding":"base64"}`, "{ a local c} 0 32768 false"},
		{"write_file", `{"path":"it's.txt","content":""}`, `{ it's.txt local c} ""`},
		{"write_file", `{"path":"a","content":"AAE=","encoding":"base64","container_id":"x"}`, `{x a local c} "\x00\x01"`},
		{"delete_file", `{"path":"a\nb"}`, "{ a\nb local c}"},
	} {
		cases := &fileCases{}
		if err := ask(t, cases, c.tool, c.arguments); err != nil || cases.asked != c.asked {
			t.Errorf("%s %s: asked for %q, %v", c.tool, c.arguments, cases.asked, err)
		}
	}
	for _, c := range [][2]string{
		{"read_file", `{}`},
		{"read_file", `{"path":"a","offset":-1}`},
		{"read_file", `{"path":"a","limit":3}`},
		{"read_file", `{"path":"a","limit":262145}`},
		{"read_file", `{"path":"a","encoding":"utf-16"}`},
		{"write_file", `{"path":"a"}`},
		{"write_file", `{"path":"a","content":"?","encoding":"base64"}`},
		{"write_file", `{"path":"a","content":"x","encoding":"hex"}`},
		{"delete_file", `{"path":"a","recursive":true}`},
	} {
		cases := &fileCases{}
		if err := ask(t, cases, c[0], c[1]); core.KindOf(err) != core.ErrInvalid || cases.asked != "" {
			t.Errorf("%s %s: asked for %q, %v", c[0], c[1], cases.asked, err)
		}
	}
}

// content of a result, as a client sees it.
func contentOf(t *testing.T, result *mcp.CallToolResult) (r readResult, text string) {
	t.Helper()
	r, ok := result.StructuredContent.(readResult)
	if !ok {
		t.Fatalf("got %+v", result)
	}
	if r.Content == nil {
		return r, ""
	}
	return r, *r.Content
}

func TestFileContent(t *testing.T) {
	for name, c := range map[string]struct {
		data          string
		offset, total int64
		encoding      string
		want, as      string
		from, next    int64
		exact         bool
	}{
		"all of a text":             {"é\n", 0, 3, "", "é\n", "text", 0, 3, true},
		"nothing":                   {"", 0, 0, "", "", "text", 0, 0, true},
		"beyond the end":            {"", 9, 3, "", "", "text", 9, 9, true},
		"a cut character":           {"aé"[:2], 0, 3, "", "a", "text", 0, 1, true},
		"cut at both ends":          {"éaé"[1:4], 1, 5, "", "a", "text", 2, 3, true},
		"no UTF-8":                  {"a\xff", 0, 2, "", "Yf8=", "base64", 0, 2, true},
		"a NUL":                     {"a\x00", 0, 2, "", "YQA=", "base64", 0, 2, true},
		"half a character, the end": {"é"[:1], 0, 1, "", "ww==", "base64", 0, 1, true},
		"a terminal's sequences":    {"\x1b[31mred", 0, 8, "", "red", "text", 0, 8, false},
		"text by wish":              {"a\xff", 0, 2, "text", "a\uFFFD", "text", 0, 2, false},
		"bytes by wish":             {"aé"[:2], 0, 3, "base64", "YcM=", "base64", 0, 2, true},
	} {
		got := contentResult("f", core.FileContent{Piece: core.FilePiece{Data: []byte(c.data), Offset: c.offset, Total: c.total}}, c.encoding)
		r, text := contentOf(t, got)
		if text != c.want || r.Encoding != c.as || r.Offset != c.from || r.Next != c.next || r.Exact != c.exact || r.Total != c.total {
			t.Errorf("%s: got %q %+v", name, text, r)
		}
		if shown := got.Content[0].(mcp.TextContent).Text; !strings.HasSuffix(shown, "\n\n"+c.want) {
			t.Errorf("%s: the model sees %q", name, shown)
		}
	}
}

// TestReadingOn: pieces of any size make the whole text again.
func TestReadingOn(t *testing.T) {
	const text = "a😀é漢字\r\n😀😀z"
	for limit := 4; limit < len(text)+2; limit++ {
		all := ""
		for next := int64(0); next < int64(len(text)); {
			end := min(int(next)+limit, len(text))
			got := contentResult("f", core.FileContent{Piece: core.FilePiece{Data: []byte(text[next:end]), Offset: next, Total: int64(len(text))}}, "")
			r, piece := contentOf(t, got)
			if r.Next <= next || r.Encoding != "text" {
				t.Fatalf("limit %d: at %d got %+v", limit, next, r)
			}
			all, next = all+piece, r.Next
		}
		if all != text {
			t.Errorf("limit %d: got %q", limit, all)
		}
	}
}

func TestShownImage(t *testing.T) {
	got := contentResult("a\n.png", core.FileContent{
		MIMEType: "image/png", Piece: core.FilePiece{Data: []byte("pix"), Total: 9},
		Preview: &core.Preview{MIMEType: "image/jpeg", Data: []byte("pixels"), Shrunk: true},
	}, "")
	r, _ := contentOf(t, got)
	image, ok := got.Content[1].(mcp.ImageContent)
	if !ok || image.Data != "cGl4ZWxz" || image.MIMEType != "image/jpeg" || r.Encoding != "image" || r.Content != nil || r.Next != 9 || r.Exact {
		t.Errorf("got %+v", got)
	}
	if text := got.Content[0].(mcp.TextContent).Text; text != `"a\n.png" (image/png, 9 bytes) (shown smaller than it is)` {
		t.Errorf("it says %q", text)
	}
}

func TestFileListing(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	got := listingResult(core.FileListing{Session: "s", Entries: []core.FileEntry{
		{Path: "a\n- b", Kind: core.FileRegular, Size: 3, Modified: at},
		{Path: "d", Kind: core.FileFolder, Modified: at},
		{Path: "f", Kind: core.FileOther, Modified: at},
		{Path: "it's.txt", Kind: core.FileRegular, Size: 1, Modified: at},
		{Path: "l", Kind: core.FileLink, Modified: at},
		{Path: "\xff\x1b[31m", Kind: core.FileRegular, Modified: at},
	}})
	const when = ", 2026-01-02T03:04:05Z)"
	want := `- "a\n- b" (3 bytes` + when + "\n- d/ (folder" + when + "\n- f (neither file nor folder" + when +
		"\n- it's.txt (1 byte" + when + "\n- l (link" + when + "\n" + `- "%FF\x1b[31m" (0 bytes` + when
	if text := got.Content[0].(mcp.TextContent).Text; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	wire, err := json.Marshal(got.StructuredContent)
	if err != nil || strings.Contains(string(wire), "\\ufffd") || strings.Contains(string(wire), "\x1b") || !strings.Contains(string(wire), `"path":"%FF\u001b[31m","kind":"file","size":0,"modified":"2026-01-02T03:04:05Z","not_utf8":true`) {
		t.Errorf("got %s, %v", wire, err)
	}
}

// TestLongListing: it is bounded, and says by how much.
func TestLongListing(t *testing.T) {
	entries := make([]core.FileEntry, maxEntries+7)
	for i := range entries {
		entries[i] = core.FileEntry{Path: fmt.Sprint(i), Kind: core.FileRegular}
	}
	long := make([]core.FileEntry, 60)
	for i := range long {
		long[i] = core.FileEntry{Path: fmt.Sprintf("%02d%s", i, strings.Repeat("/"+strings.Repeat("n", 255), 15)), Kind: core.FileRegular}
	}
	for name, c := range map[string]struct {
		listing core.FileListing
		listed  int
		says    string
	}{
		"as many as may be": {core.FileListing{Entries: entries[:maxEntries]}, maxEntries, ""},
		"too many":          {core.FileListing{Entries: entries}, maxEntries, "there are 7 more."},
		"far too many":      {core.FileListing{Entries: entries, Cut: true}, maxEntries, "at least 8 more."},
		"cut by the box":    {core.FileListing{Entries: entries[:2], Cut: true}, 2, "at least 1 more."},
		"long paths":        {core.FileListing{Entries: long}, maxEntriesText / len(long[0].Path), "more."},
		"none":              {core.FileListing{}, 0, ""},
	} {
		got := listingResult(c.listing)
		structured := got.StructuredContent.(map[string]any)
		text := got.Content[0].(mcp.TextContent).Text
		if n := len(structured["files"].([]entryResult)); n != c.listed || structured["cut"] != (c.says != "") {
			t.Errorf("%s: %d are listed, truncated %v", name, n, structured["cut"])
		}
		if strings.Contains(text, "cut") != (c.says != "") || !strings.Contains(text, c.says) {
			t.Errorf("%s: it ends with %q", name, text[max(0, len(text)-200):])
		}
	}
}
