package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// textCases: text, quoting, encodings.
func textCases() []testCase {
	return []testCase{
		{
			id:   "B01 bytes that are not UTF-8",
			code: `import sys; sys.stdout.buffer.write(b'\xff\xfe ok\n')`,
			want: outcome{stdout: "\uFFFD ok\n", files: []string{"stdout.txt"}},
			also: func(t *testing.T, s *server, r result) {
				if kept := s.read(t, r.Files[0].URI); !bytes.Equal(kept, []byte("\xff\xfe ok\n")) {
					t.Errorf("kept %q", kept)
				}
			},
		},
		{id: "B02 first bytes", code: `print('Hello, World')`, want: outcome{stdout: "Hello, World\n"}},
		{id: "B02 exit code", code: `import sys; sys.exit(3)`, want: outcome{status: "failed", exit: 3}},
		{id: "B03 special characters", code: `print("a<b && c>d & e")`, want: outcome{stdout: "a<b && c>d & e\n"}},
		{
			id:   "B05 end words of shells and quotes",
			code: "x = '''\nEOL\nEOF\n\"\"\"\n$(touch pwned) `touch pwned`\n'''\nprint(1)\n#EOL\n",
			want: outcome{stdout: "1\n"},
		},
		{id: "B06 blank lines", code: "print('a\\n\\n\\nb')\nfor _ in range(3): print()", want: outcome{stdout: "a\n\n\nb\n\n\n\n"}},
		{
			id: "B06 blank lines while streamed",
			play: func(t *testing.T, s *server) {
				c := s.begin(t, program("print('a\\n\\n\\nb')"))
				outcome{stdout: "a\n\n\nb\n"}.check(t, c.wait(t))
			},
		},
		{
			id:   "B07 backslashes and emoji",
			code: `print('C:\\Users\\x\\new'); print('😀 ж 漢 \u202e')`,
			want: outcome{stdout: "C:\\Users\\x\\new\n😀 ж 漢 \u202e\n"},
		},
		{id: "B09 code of 1 MB", code: longCode(1 << 20), want: outcome{stdout: "1048576\n"}},
		{id: "B09 code of 10 MB", code: longCode(10 << 20), want: outcome{stdout: "10485760\n"}},
		{
			id: "B09 code above the limit", code: longCode(16 << 20),
			want: outcome{refused: "invalid", says: []string{"code has 16777236 bytes; at most 16777216 are allowed"}},
		},
		{
			id: "B10 no argument for the environment", code: `print(1)`, with: args{"env": args{"CFG": `{"a":"b c"}`}},
			want: outcome{refused: "invalid", says: []string{`there is no argument "env"`}},
		},
		{id: "B10 quotes in stdin", code: `print(input())`, with: args{"stdin": `{"a":"b c"}`}, want: outcome{stdout: "{\"a\":\"b c\"}\n"}},
		{id: "B11 BOM, CRLF, tab", code: "\ufeffprint(1)\r\nif 1:\r\n\tprint(2)", want: outcome{stdout: "1\n2\n"}},
		{
			id: "B11 NUL", code: "print(1)\x00",
			want: outcome{refused: "invalid", says: []string{"NUL character at byte 8"}},
		},
		{
			id: "no code", code: " \n\t",
			want: outcome{refused: "invalid", says: []string{"code is empty"}},
		},
	}
}

// longCode is a program of n bytes and some that prints n.
func longCode(n int) string {
	const around = "x = ''\nprint(len(x))"
	code := fmt.Sprintf("x = '%s'\nprint(len(x))", strings.Repeat("0", n))
	if len(code) != n+len(around) {
		panic("longCode cannot count")
	}
	return code
}
