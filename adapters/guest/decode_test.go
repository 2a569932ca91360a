package guest

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/boxwright/boxwright/core"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

func asked() core.OutputLimits { return core.OutputLimits{Head: 10, Tail: 5, Spill: 100} }

func TestAHonestExitIsKept(t *testing.T) {
	got := decodeExit(&guestv1.Exit{
		Code: 137, Signal: "SIGKILL", TimedOut: true, Cancelled: true, OomKilled: true,
		Stdout:   &guestv1.Output{Head: []byte("0123456789"), Tail: []byte("vwxyz"), Total: 36, Spilled: 36},
		Stderr:   &guestv1.Output{Head: []byte("all of these"), Total: 12, Spilled: 12},
		Files:    []*guestv1.FileInfo{{Path: []byte("a b/\xff.csv"), Size: 3}, {Path: []byte(`C:\x`)}},
		Warnings: []string{"careful"}, DurationUs: 1500,
	}, asked())
	want := core.Exit{
		Code: 137, Signal: "SIGKILL", TimedOut: true, Cancelled: true, OOMKilled: true,
		Stdout:   core.Output{Head: []byte("0123456789"), Tail: []byte("vwxyz"), Total: 36, Spilled: 36},
		Stderr:   core.Output{Head: []byte("all of these"), Total: 12, Spilled: 12},
		Files:    []core.FileInfo{{Path: "a b/\xff.csv", Size: 3}, {Path: `C:\x`}},
		Warnings: []string{"careful"}, Duration: 1500 * time.Microsecond,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAHostileExitIsBounded(t *testing.T) {
	e := &guestv1.Exit{
		Code: -7, Signal: "SIG\x1b[31m", DurationUs: math.MaxInt64,
		Stdout: &guestv1.Output{Head: make([]byte, 1000), Tail: make([]byte, 1000), Total: -5, Spilled: math.MaxInt64},
		Stderr: &guestv1.Output{Total: math.MaxInt64, Spilled: -1},
	}
	for _, path := range []string{"", "/etc/passwd", "../x", "a/../b", "a//b", ".", "a\x00", "ok", "ok", strings.Repeat("x", 256), strings.Repeat("x/", 3000)} {
		e.Files = append(e.Files, &guestv1.FileInfo{Path: []byte(path), Size: -1})
	}
	for range 100 {
		e.Warnings = append(e.Warnings, strings.Repeat("ж\n", 1000))
	}
	got := decodeExit(e, asked())
	if got.Code != unknownExitCode || got.Signal != "SIGNAL" || len(got.Files) != 1 || got.Files[0].Path != "ok" || got.Files[0].Size != 0 {
		t.Errorf("%+v", got)
	}
	if last := got.Warnings[len(got.Warnings)-1]; !strings.HasPrefix(last, "10 files") {
		t.Errorf("nothing is said of what was dropped: %s", last)
	}
	believable(t, got)
}

// believable fails if an exit says what none may say.
func believable(t *testing.T, e core.Exit) {
	t.Helper()
	if e.Code != min(max(0, e.Code), 255) || len(e.Signal) > 16 || e.Duration != min(max(0, e.Duration), maxDuration) {
		t.Errorf("numbers: %+v", e)
	}
	believableOutput(t, e.Stdout)
	believableOutput(t, e.Stderr)
	believableDisplays(t, e.Displays)
	if len(e.Files) > maxFiles || len(e.Warnings) > maxWarnings+2 {
		t.Errorf("%d files, %d warnings", len(e.Files), len(e.Warnings))
	}
	for _, f := range e.Files {
		if f.Size < 0 || !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) != f.Path || strings.Contains(f.Path, "\x00") {
			t.Errorf("file: %+v", f)
		}
	}
	believableWarnings(t, e.Warnings)
}

func believableWarnings(t *testing.T, warnings []string) {
	t.Helper()
	for _, w := range warnings {
		if len(w) > maxWarning || !utf8.ValidString(w) || strings.ContainsAny(w, "\x00\x1b\n\r") {
			t.Errorf("warning: %q", w)
		}
	}
}

func believableOutput(t *testing.T, o core.Output) {
	t.Helper()
	limits := asked()
	kept := int64(len(o.Head) + len(o.Tail))
	if kept > limits.Head+limits.Tail || int64(len(o.Tail)) > limits.Tail || o.Cut() < 0 {
		t.Errorf("output: %+v", o)
	}
	if o.Spilled < 0 || o.Spilled > limits.Spill || o.Spilled > o.Total {
		t.Errorf("spilled: %+v", o)
	}
}

func TestEntries(t *testing.T) {
	sent := []*guestv1.FileEntry{
		{Path: []byte("a"), Size: 3, Kind: "file", ModifiedUs: 1e15},
		{Path: []byte("d"), Size: 4096, Kind: "folder", ModifiedUs: -1},
		{Path: []byte("l"), Size: 7, Kind: "link", ModifiedUs: math.MaxInt64},
		{Path: []byte("o"), Size: math.MaxInt64, Kind: "\x1b[31m"},
		{Path: []byte("\xff\n"), Size: -1, Kind: "file"},
		{Path: []byte("a"), Size: 4, Kind: "file"},
		{Path: []byte("../x"), Kind: "file"},
		{Path: []byte("/x"), Kind: "file"},
		{},
	}
	got, dropped := decodeEntries(sent)
	want := []core.FileEntry{
		{Path: "a", Size: 3, Kind: core.FileRegular, Modified: time.Unix(1e9, 0).UTC()},
		{Path: "d", Kind: core.FileFolder, Modified: time.Unix(0, 0).UTC()},
		{Path: "l", Kind: core.FileLink, Modified: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{Path: "o", Kind: core.FileOther, Modified: time.Unix(0, 0).UTC()},
		{Path: "\xff\n", Kind: core.FileRegular, Modified: time.Unix(0, 0).UTC()},
	}
	if !reflect.DeepEqual(got, want) || dropped != 4 {
		t.Errorf("got %+v, and %d dropped", got, dropped)
	}
}

func TestFilePieces(t *testing.T) {
	got := decodeFilePiece(&guestv1.ReadFileResponse{Data: []byte("0123"), Size: 9}, 5, 3)
	if want := (core.FilePiece{Data: []byte("012"), Offset: 5, Total: 9}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	for _, size := range []int64{-1, 0, math.MaxInt64} {
		p := decodeFilePiece(&guestv1.ReadFileResponse{Data: []byte("0123"), Size: size}, 5, 3)
		if p.Total < 8 || p.Total > maxFileSize {
			t.Errorf("size %d became %d", size, p.Total)
		}
	}
}

func FuzzExit(f *testing.F) {
	for _, e := range []*guestv1.Exit{
		{},
		{Code: 1, Signal: "SIGKILL", Warnings: []string{"w\n"}, DurationUs: -1},
		{Stdout: &guestv1.Output{Head: []byte("head is long enough"), Tail: []byte("tail too"), Total: 99, Spilled: 1}},
		{Files: []*guestv1.FileInfo{{Path: []byte("../a"), Size: 1}, {Path: []byte("a/b"), Size: -1}}},
		{Displays: []*guestv1.Display{{MimeType: "text/plain", Data: []byte("1\xff")}, {MimeType: "image/png", Data: []byte(pngHead)}}},
	} {
		data, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e guestv1.Exit
		if proto.Unmarshal(data, &e) == nil {
			believable(t, decodeExit(&e, asked()))
		}
	})
}
