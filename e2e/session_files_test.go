package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// fileAnswer is what tools on files answer.
type fileAnswer struct {
	Sandbox  string      `json:"sandbox_id"`
	Files    []fileEntry `json:"files"`
	Cut      bool        `json:"cut"`
	Content  string      `json:"content"`
	Encoding string      `json:"encoding"`
	MIMEType string      `json:"mime_type"`
	Next     int64       `json:"next_offset"`
	Total    int64       `json:"total_bytes"`
	Exact    bool        `json:"exact"`
	Deleted  bool        `json:"deleted"`
	result   result
}

type fileEntry struct {
	Path     string    `json:"path"`
	Kind     string    `json:"kind"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	NotUTF8  bool      `json:"not_utf8"`
}

// onFile calls a tool on a path of a sandbox, with more arguments as name and value in turn.
func (s *server) onFile(t *testing.T, tool, sandbox, path string, more ...any) fileAnswer {
	t.Helper()
	a := program("", append(more, "path", path)...)
	delete(a, "code")
	if sandbox != "" {
		a["sandbox_id"] = sandbox
	}
	answer := fileAnswer{result: s.use(t, tool, a)}
	if err := json.Unmarshal([]byte(answer.result.raw), &answer); err != nil {
		t.Fatalf("%s: %v", answer.result.raw, err)
	}
	return answer
}

func (a fileAnswer) fine(t *testing.T) fileAnswer {
	t.Helper()
	if a.result.isError {
		t.Errorf("got %.2000s", a.result.raw)
	}
	return a
}

// refused: an error of that kind, in one sentence without anything that a terminal obeys.
func (a fileAnswer) refused(t *testing.T, kind string) {
	t.Helper()
	message := a.result.Error.Message
	if !a.result.isError || a.result.Error.Type != kind || message == "" || strings.ContainsAny(message, "\n\x00\x1b") {
		t.Errorf("want %s, got %.2000s", kind, a.result.raw)
	}
}

// listed are the paths, each with its kind and size.
func (a fileAnswer) listed() (lines []string) {
	for _, f := range a.Files {
		lines = append(lines, fmt.Sprintf("%s %s %d", f.Path, f.Kind, f.Size))
	}
	return lines
}

// TestSandboxFiles plays what is done with files of a sandbox, each in one of its own.
func TestSandboxFiles(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{pooled: true})
	for name, play := range map[string]func(t *testing.T, s *server, sandbox string){
		"there and back":       filesThereAndBack,
		"B58 B59 names":        oddFileNames,
		"hostile paths":        hostileFilePaths,
		"links and devices":    linksAndDevices,
		"pieces":               filePieces,
		"images":               fileImages,
		"long lists":           longFileLists,
		"while a program runs": filesWhileItRuns,
		"its box is gone":      filesOfLostSandbox,
		"another's":            filesOfNobody,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, s, s.open(t, args{}))
		})
	}
}

func filesThereAndBack(t *testing.T, s *server, sandbox string) {
	if a := s.onFile(t, "list_files", sandbox, ".").fine(t); len(a.Files) > 0 || a.Sandbox != sandbox || a.Cut {
		t.Errorf("a new sandbox has %s", a.result.raw)
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	s.onFile(t, "write_file", sandbox, "data/in/é.csv", "content", "a,ж\n").fine(t)
	s.onFile(t, "write_file", sandbox, "data/b", "content", base64.StdEncoding.EncodeToString(all), "encoding", "base64").fine(t)
	s.onFile(t, "write_file", sandbox, "empty", "content", "").fine(t)
	s.cell(t, sandbox, "open('data/in/é.csv').read(), open('data/b', 'rb').read() == bytes(range(256)), open('empty').read()").shows(t, "('a,ж\\n', True, '')")
	want := []string{"data folder 0", "data/b file 256", "data/in folder 0", "data/in/é.csv file 5", "empty file 0"}
	a := s.onFile(t, "list_files", sandbox, ".", "recursive", true).fine(t)
	if got := a.listed(); !slices.Equal(got, want) || a.Cut {
		t.Errorf("listed %q", got)
	}
	for _, f := range a.Files {
		if age := time.Since(f.Modified); age > time.Hour || age < -time.Hour {
			t.Errorf("%s was changed at %s", f.Path, f.Modified)
		}
	}
	if got := s.onFile(t, "list_files", sandbox, "data/").fine(t).listed(); !slices.Equal(got, []string{"data/b file 256", "data/in folder 0"}) {
		t.Errorf("data/ has %q", got)
	}
	if a := s.onFile(t, "read_file", sandbox, "data/in/é.csv").fine(t); a.Content != "a,ж\n" || a.Encoding != "text" || !a.Exact || a.MIMEType != "text/csv; charset=utf-8" {
		t.Errorf("read %s", a.result.raw)
	}
	if a := s.onFile(t, "read_file", sandbox, "data/b").fine(t); a.Content != base64.StdEncoding.EncodeToString(all) || a.Encoding != "base64" || a.Total != 256 {
		t.Errorf("read %s", a.result.raw)
	}
	s.onFile(t, "write_file", sandbox, "empty", "content", "full").fine(t)
	s.cell(t, sandbox, "open('empty').read()").shows(t, "'full'")
	if a := s.onFile(t, "delete_file", sandbox, "empty").fine(t); !a.Deleted {
		t.Errorf("got %s", a.result.raw)
	}
	s.cell(t, sandbox, "import os; os.path.exists('empty')").shows(t, "False")
	for _, tool := range []string{"delete_file", "read_file", "list_files"} {
		s.onFile(t, tool, sandbox, "empty").refused(t, "not_found")
	}
	s.onFile(t, "delete_file", sandbox, "data").refused(t, "invalid")
	s.onFile(t, "write_file", sandbox, "data", "content", "x").refused(t, "invalid")
	s.onFile(t, "write_file", sandbox, "data/b/c", "content", "x").refused(t, "invalid")
	s.onFile(t, "read_file", sandbox, "data").refused(t, "invalid")
	s.onFile(t, "list_files", sandbox, "data/b").refused(t, "invalid")
}

// oddFileNames: any name that a client can say works in all tools, and any other is shown and does no harm.
func oddFileNames(t *testing.T, s *server, sandbox string) {
	names := []string{
		"it's.txt", "a'; touch pwned; '", "line\nbreak", "-rf", " ", "...", `C:\x`, "*", "%41", "漢字 #1?.csv", "\x1b[31mred", strings.Repeat("n", 255),
	}
	for _, name := range names {
		s.onFile(t, "write_file", sandbox, name, "content", name).fine(t)
		if a := s.onFile(t, "read_file", sandbox, name, "encoding", "base64").fine(t); a.Content != base64.StdEncoding.EncodeToString([]byte(name)) {
			t.Errorf("%.20q has %q", name, a.Content)
		}
	}
	s.cell(t, sandbox, `open(b'\xff\xfe', 'w').close(); open(b'e\xcc', 'w').close();`)
	a := s.onFile(t, "list_files", sandbox, ".").fine(t)
	var got, encoded []string
	for _, f := range a.Files {
		if got = append(got, f.Path); f.NotUTF8 {
			encoded = append(encoded, f.Path)
		}
	}
	want := append(slices.Clone(names), "%FF%FE", "e%CC")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || !slices.Equal(encoded, []string{"e%CC", "%FF%FE"}) {
		t.Errorf("listed %q, not UTF-8 %q", got, encoded)
	}
	if strings.Contains(a.result.text, "\x1b") || strings.Count(a.result.text, "\n") != len(want)-1 {
		t.Errorf("a name breaks out of its line: %q", a.result.text)
	}
	for _, name := range names {
		s.onFile(t, "delete_file", sandbox, name).fine(t)
	}
	s.cell(t, sandbox, "import os; sorted(os.listdir(b'.'))").shows(t, `[b'e\xcc', b'\xff\xfe']`)
}

func hostileFilePaths(t *testing.T, s *server, sandbox string) {
	for _, path := range []string{
		"..", "../x", "a/../../x", "a/..", "/etc/passwd", "/workx", "/work//etc", "/", "a\x00b", "a//b", "./../x", strings.Repeat("n", 256),
		strings.Repeat("d/", 600) + "x", strings.Repeat("d/", 40) + "x",
	} {
		for _, tool := range []string{"read_file", "write_file", "delete_file", "list_files"} {
			more := []any{}
			if tool == "write_file" {
				more = []any{"content", "x"}
			}
			s.onFile(t, tool, sandbox, path, more...).refused(t, "invalid")
		}
	}
	s.onFile(t, "read_file", sandbox, "").refused(t, "invalid")
	s.cell(t, sandbox, "import os; os.listdir()").shows(t, "[]")
}

// linksAndDevices: nothing is read, written or listed through a link, and nothing waits for a pipe.
func linksAndDevices(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, `
import os, socket
os.mkdir('real'); open('real/f', 'w').write('kept')
os.symlink('/etc', 'out'); os.symlink('/etc/passwd', 'passwd'); os.symlink('real', 'dir'); os.symlink('real/f', 'alias'); os.symlink('loop', 'loop'); os.symlink('..', 'up')
os.mkfifo('pipe'); os.symlink('/dev/zero', 'zero'); os.symlink('/proc/self/environ', 'environ')
unix = socket.socket(socket.AF_UNIX); unix.bind('socket')`)
	for _, path := range []string{"passwd", "out/passwd", "alias", "dir/f", "loop", "up/etc/passwd", "pipe", "zero", "environ", "socket", "real"} {
		s.onFile(t, "read_file", sandbox, path).refused(t, "invalid")
	}
	for _, path := range []string{"out", "dir", "loop", "up", "pipe", "dir/f", "socket"} {
		s.onFile(t, "list_files", sandbox, path).refused(t, "invalid")
	}
	for _, path := range []string{"out/x", "dir/x", "up/x", "loop/x", "pipe/x"} {
		s.onFile(t, "write_file", sandbox, path, "content", "x").refused(t, "invalid")
	}
	for _, path := range []string{"out/passwd", "dir/f", "up/x"} {
		s.onFile(t, "delete_file", sandbox, path).refused(t, "invalid")
	}
	want := []string{
		"alias link 0", "dir link 0", "environ link 0", "loop link 0", "out link 0", "passwd link 0", "pipe other 0", "real folder 0",
		"real/f file 4", "socket other 0", "up link 0", "zero link 0",
	}
	if got := s.onFile(t, "list_files", sandbox, ".", "recursive", true).fine(t).listed(); !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	s.onFile(t, "write_file", sandbox, "alias", "content", "new").fine(t) // the link is replaced, not followed
	for _, path := range []string{"dir", "out", "pipe", "passwd"} {
		s.onFile(t, "delete_file", sandbox, path).fine(t)
	}
	s.cell(t, sandbox, "open('real/f').read(), open('alias').read(), os.path.exists('/etc/passwd'), os.path.exists('/etc/x')").shows(t, "('kept', 'new', True, False)")
}

// filePieces: a long text comes whole in pieces; characters that they cut are not lost.
func filePieces(t *testing.T, s *server, sandbox string) {
	text := strings.Repeat("añ漢😀\n", 4000)
	s.onFile(t, "write_file", sandbox, "long.txt", "content", text).fine(t)
	var all strings.Builder
	for next := int64(0); next < int64(len(text)); {
		a := s.onFile(t, "read_file", sandbox, "long.txt", "offset", next, "limit", 9001).fine(t)
		if a.Encoding != "text" || a.Total != int64(len(text)) || a.Next <= next || !a.Exact {
			t.Fatalf("at %d: %.300s", next, a.result.raw)
		}
		all.WriteString(a.Content)
		next = a.Next
	}
	if all.String() != text {
		t.Errorf("%d of %d bytes are right", all.Len(), len(text))
	}
	if a := s.onFile(t, "read_file", sandbox, "long.txt", "offset", 1<<40).fine(t); a.Content != "" || a.Total != int64(len(text)) {
		t.Errorf("beyond the end: %s", a.result.raw)
	}
	for _, more := range [][]any{{"offset", -1}, {"limit", 0}, {"limit", 1 << 20}, {"encoding", "latin-1"}} {
		s.onFile(t, "read_file", sandbox, "long.txt", more...).refused(t, "invalid")
	}
	s.onFile(t, "write_file", sandbox, "log", "content", "\x1b[31mred\x07").fine(t)
	if a := s.onFile(t, "read_file", sandbox, "log").fine(t); a.Content != "red␇" || a.Exact || strings.Contains(a.result.text, "\x1b") {
		t.Errorf("a log: %s", a.result.raw)
	}
	s.onFile(t, "write_file", sandbox, "bad", "content", "?", "encoding", "base64").refused(t, "invalid")
	s.onFile(t, "write_file", sandbox, "huge", "content", strings.Repeat("x", 17<<20)).refused(t, "invalid")
	s.onFile(t, "read_file", sandbox, "huge").refused(t, "not_found")
}

func fileImages(t *testing.T, s *server, sandbox string) {
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.png", "no-ending"} {
		s.onFile(t, "write_file", sandbox, name, "content", pixel, "encoding", "base64").fine(t)
		a := s.onFile(t, "read_file", sandbox, name).fine(t)
		if len(a.result.images) != 1 || !bytes.Equal(a.result.images[0].data, data) || a.result.images[0].mimeType != "image/png" || a.Encoding != "image" || a.Content != "" {
			t.Errorf("%s: %s", name, a.result.raw)
		}
		if a := s.onFile(t, "read_file", sandbox, name, "encoding", "base64").fine(t); a.Content != pixel || len(a.result.images) > 0 {
			t.Errorf("%s: its bytes: %s", name, a.result.raw)
		}
	}
	s.onFile(t, "write_file", sandbox, "no.png", "content", "no picture").fine(t)
	if a := s.onFile(t, "read_file", sandbox, "no.png").fine(t); a.Content != "no picture" || len(a.result.images) > 0 {
		t.Errorf("no picture: %s", a.result.raw)
	}
}

func longFileLists(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "import os\nos.makedirs('z/many')\nfor i in range(600): open(f'z/many/{i:03}', 'w').close()")
	a := s.onFile(t, "list_files", sandbox, "z/many").fine(t)
	if len(a.Files) != 500 || !a.Cut || a.Files[499].Path != "z/many/499" {
		t.Errorf("%d are listed, truncated %v", len(a.Files), a.Cut)
	}
	holds(t, a.result.text, "there are 100 more")
	s.cell(t, sandbox, "for i in range(11000): open(f'z/many/x{i}', 'w').close()")
	a = s.onFile(t, "list_files", sandbox, ".", "recursive", true).fine(t)
	if len(a.Files) != 500 || !a.Cut {
		t.Errorf("%d are listed, truncated %v", len(a.Files), a.Cut)
	}
	holds(t, a.result.text, "at least")
	if a := s.onFile(t, "list_files", sandbox, "z").fine(t); !slices.Equal(a.listed(), []string{"z/many folder 0"}) || a.Cut {
		t.Errorf("the folder around it: %s", a.result.raw)
	}
}

// filesWhileItRuns: a program waits for a file, and its answer is read before it ends. The file that came from
// outside is not among what the program has written.
func filesWhileItRuns(t *testing.T, s *server, sandbox string) {
	c := s.sendTo(t, "run_python", args{"sandbox_id": sandbox, "timeout_seconds": 60, "code": `
import os, time
while not os.path.exists('go'): time.sleep(0.01)
open('tmp', 'w').write(open('go').read() * 2)
os.rename('tmp', 'answer')
while os.path.exists('answer'): time.sleep(0.01)
'seen'`}, nil)
	s.onFile(t, "write_file", sandbox, "go", "content", "ж").fine(t)
	eventually(t, 20*time.Second, func() (bool, string) {
		a := s.onFile(t, "read_file", sandbox, "answer")
		return a.Content == "жж", a.result.raw
	})
	if got := s.onFile(t, "list_files", sandbox, ".").fine(t).listed(); !slices.Equal(got, []string{"answer file 4", "go file 2"}) {
		t.Errorf("listed %q", got)
	}
	s.onFile(t, "delete_file", sandbox, "answer").fine(t)
	r := c.wait(t)
	r.shows(t, "'seen'")
	if paths := r.paths(); len(paths) > 0 {
		t.Errorf("the run has written %q", paths)
	}
}

func filesOfLostSandbox(t *testing.T, _ *server, _ string) {
	s := serve(t, setup{})
	for _, tool := range []string{"list_files", "read_file", "delete_file"} {
		s.onFile(t, tool, "", "a").refused(t, "not_found")
	}
	s.awaitNoBoxes(t)
	own := s.onFile(t, "write_file", "", "a", "content", "1").fine(t).Sandbox
	s.cell(t, "", "open('a').read()").shows(t, "'1'")
	if a := s.onFile(t, "read_file", own, "a").fine(t); a.Content != "1" {
		t.Errorf("by its id: %s", a.result.raw)
	}
	s.killPlugin(t)
	s.onFile(t, "write_file", "", "b", "content", "2").fine(t)
	if got := s.onFile(t, "list_files", "", ".").fine(t).listed(); !slices.Equal(got, []string{"a file 1", "b file 1"}) {
		t.Errorf("after the loss of the stream: %q", got)
	}
	here().engine.removeBox(t, s.awaitBox(t, "session"))
	s.onFile(t, "read_file", own, "a").refused(t, "session_expired")
	s.onFile(t, "write_file", own, "a", "content", "1").refused(t, "session_expired")
}

func filesOfNobody(t *testing.T, s *server, sandbox string) {
	s.onFile(t, "write_file", sandbox, "a", "content", "1").fine(t)
	other := serve(t, setup{})
	for _, id := range []string{sandbox, "no-such", strings.Repeat("x", 300)} {
		for _, tool := range []string{"list_files", "read_file", "delete_file"} {
			other.onFile(t, tool, id, "a").refused(t, "not_found")
		}
		other.onFile(t, "write_file", id, "a", "content", "2").refused(t, "not_found")
	}
	if a := s.onFile(t, "read_file", sandbox, "a").fine(t); a.Content != "1" {
		t.Errorf("it has %s", a.result.raw)
	}
}

// TestFilesKeepASandbox: one whose files are used is not idle.
func TestFilesKeepASandbox(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	sandbox := s.open(t, args{"idle_timeout_seconds": 4})
	s.onFile(t, "write_file", sandbox, "a", "content", "1").fine(t)
	for range 6 {
		time.Sleep(time.Second)
		s.onFile(t, "read_file", sandbox, "a").fine(t)
	}
	s.onFile(t, "list_files", sandbox, ".").fine(t)
}
