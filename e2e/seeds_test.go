package e2e

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestFaultsOfTheSeeds: what was wrong with the two earlier programs, by the numbers of the list
// of what Boxwright must offer in their place.
func TestFaultsOfTheSeeds(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{})
	for name, play := range map[string]func(*testing.T, *server){
		"1 a file with a quote in its name":    quoteInName,
		"1 setuid files":                       setuidFile,
		"2 code through a shell":               codeThroughShell,
		"2 dependencies through a shell":       dependenciesThroughShell,
		"3 one byte that is not UTF-8":         oneBadByte,
		"6 errors and exit codes are told":     errorsAreTold,
		"8 names that are not ASCII, no twins": namesNotASCII,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, s)
		})
	}
}

func quoteInName(t *testing.T, s *server) {
	first := s.run(t, program(`open("it's.txt", 'w').write('quoted')`))
	outcome{files: []string{"it's.txt"}}.check(t, first)
	if got := s.read(t, first.Files[0].URI); string(got) != "quoted" {
		t.Errorf("read %q", got)
	}
	outcome{stdout: "[]\n"}.check(t, s.run(t, program("import os; print(os.listdir())")))
	outcome{files: []string{"other.txt"}}.check(t, s.run(t, program("open('other.txt', 'w').write('x')")))
	again := s.run(t, program(`print(open("it's.txt").read())`, "files", upload("it's.txt", "sent")))
	outcome{stdout: "sent\n"}.check(t, again)
}

func setuidFile(t *testing.T, s *server) {
	r := s.run(t, program("import os\nopen('x', 'w').write('#!/bin/sh')\nos.chmod('x', 0o6777)\nos.mkdir('d', 0o777); os.chmod('d', 0o3777)\nopen('d/y', 'w').write('y')"))
	outcome{files: []string{"d/y", "x"}}.check(t, r)
	for _, f := range r.Files {
		info, err := os.Stat(strings.TrimPrefix(f.URL, "file://"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|0o111) != 0 {
			t.Errorf("%s is kept with mode %s", f.Path, info.Mode())
		}
	}
}

func codeThroughShell(t *testing.T, s *server) {
	long := strings.Repeat("# a line of a long program\n", 8000) // 210 KB
	code := long + "text = '''\nEOL\ntouch pwned\n'''\nimport os; print(os.listdir())"
	outcome{stdout: "[]\n"}.check(t, s.run(t, program(code)))
}

func dependenciesThroughShell(t *testing.T, s *server) {
	for _, requirement := range []string{"six; touch pwned", "six$(touch pwned)", "six`touch pwned`", "six\ntouch pwned", "six' 'idna", "--upgrade"} {
		r := s.run(t, program("print('ran')", "dependencies", []string{requirement}))
		if !r.isError || r.Error.Type != "invalid" && r.Error.Type != "dependency" {
			t.Errorf("%q: %.2000s", requirement, r.raw)
		}
	}
}

func oneBadByte(t *testing.T, s *server) {
	r := s.run(t, program("import sys\nprint('before', flush=True)\nsys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()\nprint('after')"))
	outcome{stdout: "before\n\uFFFD\nafter\n", files: []string{"stdout.txt"}}.check(t, r)
}

func errorsAreTold(t *testing.T, s *server) {
	failed := s.run(t, program("import sys; print('out'); sys.exit(7)"))
	outcome{status: "failed", exit: 7, stdout: "out\n"}.check(t, failed)
	holds(t, failed.text, "exit code 7", "out")
	raised := s.run(t, program("1/0"))
	outcome{status: "failed", exit: 1, stderr: "ZeroDivisionError: division by zero"}.check(t, raised)
	refused := s.run(t, program(""))
	outcome{refused: "invalid"}.check(t, refused)
	ended := s.run(t, program("import os, signal; os.kill(os.getpid(), signal.SIGTERM)"))
	outcome{status: "failed", exit: 143, signal: "SIGTERM"}.check(t, ended)
}

func namesNotASCII(t *testing.T, s *server) {
	code := "import os\nfor name in ('данные.txt', 'é', 'e\u0301', '漢字/文.md', 'a b\\tc\\nd', '😀'):\n" +
		"    os.makedirs(os.path.dirname(name) or '.', exist_ok=True); open(name, 'w').write(name)\n" +
		"open(b'\\xff.bin', 'wb').write(b'raw')"
	r := s.run(t, program(code))
	want := []string{"%FF.bin", "a b\tc\nd", "e\u0301", "é", "данные.txt", "漢字/文.md", "😀"}
	outcome{files: want}.check(t, r)
	for _, f := range r.Files {
		got := string(s.read(t, f.URI))
		if got != f.Path && f.Path != "%FF.bin" {
			t.Errorf("%q holds %q", f.Path, got)
		}
	}
	outcome{}.check(t, s.run(t, program("pass"))) // nothing comes back twice
}
