package e2e

import (
	"bytes"
	"image"
	_ "image/jpeg" // previews may be JPEG
	_ "image/png"
	"strings"
	"testing"
)

// writePicture is a Python function that writes a PNG of noise, which no compression makes smaller.
const writePicture = `
import os, struct, zlib
def picture(name, width, height):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\0' + os.urandom(3 * width) for _ in range(height))
    with open(name, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)))
        f.write(chunk(b'IDAT', zlib.compress(rows, 1)) + chunk(b'IEND', b''))
`

// outputCases: size of output, streams, stdin, pictures.
func outputCases() []testCase {
	return []testCase{
		{
			id:   "B12 time is up, flushed",
			code: "print('a', flush=True); import time; time.sleep(99)", with: args{"timeout_seconds": 2},
			want: outcome{status: "timed_out", exit: 137, signal: "SIGKILL", stdout: "a\n"},
		},
		{
			id:   "B12 time is up, not flushed",
			code: "print('a'); import time; time.sleep(99)", with: args{"timeout_seconds": 2},
			want: outcome{status: "timed_out", exit: 137, signal: "SIGKILL", stdout: "a\n"},
		},
		{
			id:   "B13 output beyond the cap",
			code: "for i in range(10**6): print(i)\nprint('end')", with: args{"timeout_seconds": 300}, // gVisor takes 20 µs for each line
			want: outcome{any: true},
			also: checkLongOutput,
		},
		{id: "B15 endless output", play: endlessOutput},
		{
			id:   "B16 picture too big to be shown",
			code: writePicture + "picture('a.png', 1200, 1000)",
			want: outcome{files: []string{"a.png"}, images: 1},
			also: checkShrunk,
		},
		{
			id:   "B16 as reported",
			code: "import matplotlib.pyplot as plt\nplt.figure(figsize=(20,20)); plt.savefig('a.png', dpi=600); plt.close()",
			with: args{"dependencies": []string{"matplotlib"}, "timeout_seconds": 120},
			want: outcome{any: true},
			also: func(t *testing.T, _ *server, r result) {
				size := r.file(t, "a.png").Size
				if len(r.images) == 0 && !strings.Contains(strings.Join(r.Warnings, "\n"), "is not shown") {
					t.Error("neither shown nor told why not")
				}
				t.Logf("a picture of %d bytes: %d shown, %q", size, len(r.images), r.Warnings)
			},
		},
		{
			id:   "B18 a warning is no failure",
			code: "import warnings; warnings.warn('w'); print(1)",
			want: outcome{stdout: "1\n", stderr: "UserWarning: w"},
		},
		{
			id: "B19 no stdin", code: "print(input())",
			want: outcome{status: "failed", exit: 1, stderr: "EOFError"},
		},
		{id: "B19 stdin", code: "print(input())", with: args{"stdin": "hi\n"}, want: outcome{stdout: "hi\n"}},
		{
			id: "B19 long stdin", code: "import sys; print(len(sys.stdin.read()))",
			with: args{"stdin": strings.Repeat("ж", 1<<20)}, want: outcome{stdout: "1048576\n"},
		},
		{id: "B24 no output", code: "x = 1"},
	}
}

func checkLongOutput(t *testing.T, s *server, r result) {
	t.Helper()
	const total = 10*2 + 90*3 + 900*4 + 9000*5 + 90000*6 + 900000*7 + len("end\n")
	head, rest, _ := strings.Cut(r.Stdout, "\n[… ")
	_, tail, _ := strings.Cut(rest, " bytes left out …]\n")
	if got := r.Truncated.StdoutBytes + len(head) + len(tail); got != total {
		t.Errorf("%d bytes shown, %d left out: %d of %d", len(head)+len(tail), r.Truncated.StdoutBytes, got, total)
	}
	if !strings.HasPrefix(head, "0\n1\n2\n") || !strings.HasSuffix(tail, "999999\nend\n") {
		t.Errorf("head or tail is not the program's: %.20q, %q", head, tail[max(0, len(tail)-20):])
	}
	if kept := s.read(t, r.file(t, "stdout.txt").URI); len(kept) != total || !bytes.HasSuffix(kept, []byte("\n999999\nend\n")) {
		t.Errorf("kept %d bytes, want %d", len(kept), total)
	}
}

// endlessOutput floods a server of its own, whose memory must not grow with it.
func endlessOutput(t *testing.T, _ *server) {
	s := serve(t, setup{})
	outcome{stdout: "hello\n"}.check(t, s.run(t, program("print('hello')")))
	before := s.peakMemory(t)
	r := s.run(t, program("while True: print('y' * 1000)", "timeout_seconds", 5))
	outcome{status: "timed_out", exit: 137, signal: "SIGKILL", any: true}.check(t, r)
	if r.Truncated.StdoutBytes < 10<<20 {
		t.Errorf("only %d bytes were left out: no flood", r.Truncated.StdoutBytes)
	}
	grown := s.peakMemory(t) - before
	t.Logf("the server grew by %d KiB while %d MiB came out", grown>>10, r.Truncated.StdoutBytes>>20)
	if grown > 32<<20 {
		t.Errorf("the server grew by %d KiB", grown>>10)
	}
}

// checkShrunk wants the picture shown in less than 500 KB and the original whole behind its link.
func checkShrunk(t *testing.T, s *server, r result) {
	t.Helper()
	original := s.read(t, r.file(t, "a.png").URI)
	if len(original) != r.Files[0].Size || len(original) < 3_000_000 || len(original) != int(*r.links[0].Size) {
		t.Errorf("the original has %d bytes, the record says %d", len(original), r.Files[0].Size)
	}
	shown := r.images[0]
	if len(shown.data) > 500<<10 {
		t.Errorf("%d bytes are shown", len(shown.data))
	}
	picture, format, err := image.DecodeConfig(bytes.NewReader(shown.data))
	if err != nil || "image/"+format != shown.mimeType {
		t.Fatalf("what is shown as %s is %s, %v", shown.mimeType, format, err)
	}
	if ratio := float64(picture.Width) / float64(picture.Height); ratio < 1.18 || ratio > 1.22 {
		t.Errorf("shown with %d x %d", picture.Width, picture.Height)
	}
}
