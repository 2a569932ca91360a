package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// upload makes the files argument.
func upload(path, content string) []args {
	return []args{{"path": path, "content": content}}
}

// fileCases: state between runs, files and artifacts.
func fileCases() []testCase {
	allBytes := bytes.Repeat(func() []byte {
		b := make([]byte, 256)
		for i := range b {
			b[i] = byte(i)
		}
		return b
	}(), 4096)
	sum := sha256.Sum256(allBytes)
	return []testCase{
		{id: "B43 nothing of an earlier run", play: nothingOfEarlierRuns},
		{
			id:   "B46 files named like modules",
			code: "import code, json, helper\nprint(code.InteractiveConsole, json.dumps([1]), helper.x)",
			with: args{"files": []args{
				{"path": "code.py", "content": "raise SystemExit('mine')"},
				{"path": "json.py", "content": "raise SystemExit('mine')"},
				{"path": "helper.py", "content": "x = 'helper'"},
			}},
			want: outcome{stdout: "<class 'code.InteractiveConsole'> [1] helper\n"},
		},
		{
			id: "B46 as reported", code: "import code; print(code.InteractiveConsole)\nimport pdb, __main__\nprint(__name__)",
			want: outcome{stdout: "<class 'code.InteractiveConsole'>\n__main__\n"},
		},
		{
			id:   "B47 await",
			code: "import asyncio\nawait asyncio.sleep(0)\nprint('awaited')",
			want: outcome{stdout: "awaited\n"},
		},
		{
			id:   "B47 asyncio.run",
			code: "import asyncio\nasyncio.run(asyncio.sleep(0))\nprint('ran')",
			want: outcome{stdout: "ran\n"},
		},
		{id: "B58 places where no file goes", play: placesOutside},
		{
			id:   "B58 a shell's characters are a name",
			code: "import os; print(sorted(os.listdir())); print(open(\"a'; touch pwned; '\").read())",
			with: args{"files": upload("a'; touch pwned; '", "x")},
			want: outcome{stdout: "[\"a'; touch pwned; '\"]\nx\n"},
		},
		{id: "B59 addresses outside of a run", play: addressesOutside},
		{
			id: "B60 links are not followed",
			code: `import os
os.symlink('/etc/passwd', 'out.txt'); os.symlink('/etc', 'folder'); os.symlink('nowhere', 'dangling'); os.symlink('loop', 'loop')
os.mkfifo('fifo'); open('real.txt', 'w').write('real')`,
			want: outcome{files: []string{"real.txt"}},
		},
		{
			id:   "B61 spaces and other characters in names",
			code: "open('résumé 漢字 #1?.csv', 'w').write('a,b')",
			want: outcome{files: []string{"résumé 漢字 #1?.csv"}},
			also: func(t *testing.T, s *server, r result) {
				if got := s.read(t, r.Files[0].URI); string(got) != "a,b" {
					t.Errorf("read %q", got)
				}
			},
		},
		{
			id: "B62 bytes in and out",
			code: "import hashlib\ndata = open('in.bin', 'rb').read()\nprint(hashlib.sha256(data).hexdigest())\n" +
				"open('b.bin', 'wb').write(bytes(range(256)) * 4096)",
			with: args{"files": []args{{"path": "in.bin", "content": base64.StdEncoding.EncodeToString(allBytes), "encoding": "base64"}}},
			want: outcome{stdout: hex.EncodeToString(sum[:]) + "\n", files: []string{"b.bin"}},
			also: func(t *testing.T, s *server, r result) {
				if !bytes.Equal(s.read(t, r.Files[0].URI), allBytes) {
					t.Error("other bytes came out")
				}
			},
		},
		{id: "B65 exactly this run's figures", play: figures},
		{
			id: "B66 below the working directory",
			code: `import os; print(os.getcwd())
os.makedirs('sub/d')
for name in 'a.csv', 'sub/d/a.csv': open(name, 'w').write(name)`,
			want: outcome{stdout: "/work\n", files: []string{"a.csv", "sub/d/a.csv"}},
		},
		{
			id: "B66 outside of the working directory", code: "open('/tmp/b.csv', 'w').write('b')",
			also: func(t *testing.T, _ *server, r result) {
				holds(t, strings.Join(r.Warnings, "\n"), "/tmp/b.csv", "/work")
				holds(t, r.text, "/tmp/b.csv")
			},
		},
		{
			id:   "B66 an input that is changed comes back, one that is not does not",
			code: "open('changed.txt', 'a').write('more')\nopen('same.txt').read()",
			with: args{"files": []args{{"path": "changed.txt", "content": "some"}, {"path": "same.txt", "content": "same"}}},
			want: outcome{files: []string{"changed.txt"}},
			also: func(t *testing.T, s *server, r result) {
				if got := s.read(t, r.Files[0].URI); string(got) != "somemore" {
					t.Errorf("read %q", got)
				}
			},
		},
		{
			id: "B68 not root, read-only",
			code: `import os, six
print(os.getuid(), os.environ['HOME'], os.path.expanduser('~'))
for place in '/work', '/tmp', os.environ['HOME']: open(place + '/.a', 'w').write('a')
for place in '/', '/etc', '/usr', '/opt/boxwright/env', '/opt/boxwright/bin':
    try: open(place + '/a', 'w'); print(place, 'is writable')
    except OSError: pass`,
			with: args{"dependencies": []string{"six"}},
			want: outcome{stdout: "1000 /home/box /home/box\n", files: []string{".a"}},
		},
		{
			id: "B71 empty files", code: "open('e', 'w').close()",
			want: outcome{files: []string{"e"}},
			also: func(t *testing.T, s *server, r result) {
				if r.Files[0].Size != 0 || len(s.read(t, r.Files[0].URI)) != 0 {
					t.Errorf("%+v", r.Files[0])
				}
			},
		},
		{
			id:   "B77 names of a Windows client",
			code: `print(open('C:\\data\\my file.txt').read())`,
			with: args{"files": upload(`C:\data\my file.txt`, "mine")},
			want: outcome{stdout: "mine\n"},
		},
		{id: "B78 a full disk", play: fullDisk},
		{id: "B78 more files than are kept", play: tooManyFiles},
	}
}

func nothingOfEarlierRuns(t *testing.T, s *server) {
	const places = "import os\nplaces = ['/work/x', '/tmp/x', '/dev/shm/x', os.environ['HOME'] + '/x']\n"
	first := s.run(t, program(places+"for p in places: open(p, 'w').write('x')"))
	outcome{files: []string{"x"}}.check(t, first)
	second := s.run(t, program(places+"print([p for p in places if os.path.exists(p)])"))
	outcome{stdout: "[]\n"}.check(t, second)
}

func placesOutside(t *testing.T, s *server) {
	for path, why := range map[string]string{
		"/home/a'; touch /tmp/pwn; '":  "is absolute",
		"/work//etc/x":                 "is absolute",
		"../../etc/x":                  "leaves the workspace",
		"a/../../x":                    "leaves the workspace",
		"/proc/self/environ":           "is absolute",
		"":                             "is empty",
		"a//b":                         "has an empty element",
		"./a":                          "has an empty element",
		"a\x00b":                       "holds a NUL character",
		strings.Repeat("n", 256):       "has a name that is too long",
		strings.Repeat("d/", 32) + "f": "is too deep",
	} {
		r := s.run(t, program("print(1)", "files", upload(path, "x")))
		outcome{refused: "invalid", says: []string{why, "paths are relative to the workspace"}}.check(t, r)
	}
	twice := s.run(t, program("print(1)", "files", slices.Concat(upload("a", "1"), upload("a", "2"))))
	outcome{refused: "invalid", says: []string{`"a" was sent twice`}}.check(t, twice)
	under := s.run(t, program("print(1)", "files", slices.Concat(upload("a", "1"), upload("a/b", "2"))))
	outcome{refused: "invalid", says: []string{`"a/b"`}}.check(t, under)
}

func addressesOutside(t *testing.T, s *server) {
	r := s.run(t, program("open('a.txt', 'w').write('a')"))
	outcome{files: []string{"a.txt"}}.check(t, r)
	run := strings.TrimSuffix(r.file(t, "a.txt").URI, "a.txt")
	other := s.run(t, program("open('b.txt', 'w').write('b')"))
	for _, uri := range []string{
		run + "../x", run + "%2e%2e/x", run + "..%2f..%2finstance", run + "../" + other.RunID + "/b.txt", run + "/etc/passwd",
		run + "nothing", run, "boxwright://runs/../a.txt", "boxwright://runs/%2e%2e/instance", "file:///etc/passwd", run + "a.txt%00",
	} {
		if data, err := s.tryRead(uri); err == nil {
			t.Errorf("%s was read: %q", uri, data)
		} else if strings.Contains(err.Error(), s.dir) {
			t.Errorf("%s: the error tells where files are: %v", uri, err)
		}
	}
}

func figures(t *testing.T, s *server) {
	const import3 = "import matplotlib.pyplot as plt\n"
	three := program(import3+"for i in range(3): plt.figure(); plt.plot([i, 1])", "dependencies", []string{"matplotlib"}, "timeout_seconds", 120)
	r := s.run(t, three)
	outcome{any: true}.check(t, r)
	if len(r.images) != 3 || len(r.Files) != 3 {
		t.Errorf("%d images, files %q; want 3", len(r.images), r.paths())
	}
	none := program(import3+"print('none')", "dependencies", []string{"matplotlib"}, "timeout_seconds", 120)
	outcome{stdout: "none\n"}.check(t, s.run(t, none))
}

// fullDisk fills each place that can be written, and the program learns it in the usual way.
func fullDisk(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {memory: 1GiB, disk: 64MiB}\n"})
	for _, place := range []string{"/work", "/tmp", "/dev/shm", "/home/box"} {
		r := s.run(t, program("with open('"+place+"/big', 'wb') as f:\n    while True: f.write(b'0' * 10**6)"))
		outcome{status: "failed", exit: 1, any: true}.check(t, r)
		if !strings.Contains(r.Stderr, "No space left on device") {
			t.Errorf("%s: %.2000s", place, r.Stderr)
		}
	}
	quiet := s.run(t, program("import os\ntry:\n    with open('big', 'wb') as f:\n        while True: f.write(b'0' * 10**6)\nexcept OSError as e: print(e.errno)\nos.remove('big')\nprint(os.statvfs('/work').f_blocks * os.statvfs('/work').f_frsize)"))
	outcome{stdout: "28\n67108864\n"}.check(t, quiet)
}

// tooManyFiles: what is not kept is told, and the rest is.
func tooManyFiles(t *testing.T, _ *server) {
	s := serve(t, setup{config: "files: {max_file: 1MiB, max_per_run: 2MiB}\n"})
	r := s.run(t, program("for name, size in ('a', 10**6), ('big', 2 * 10**6), ('c', 10**6), ('d', 10**6): open(name, 'wb').write(bytes(size))"))
	outcome{files: []string{"a", "c"}}.check(t, r)
	holds(t, strings.Join(r.Warnings, "\n"), `"big" has 2000000 bytes`, `"d" has 1000000 bytes`)

	r = s.run(t, program("for i in range(3000): open(f'f{i:04}', 'w').close()"))
	outcome{any: true}.check(t, r)
	if len(r.Files) < 100 || len(r.Files) >= 1000 { // of 1000 that are kept, an answer lists what it has room for
		t.Errorf("%d files are listed", len(r.Files))
	}
	holds(t, strings.Join(r.Warnings, "\n"), "2000 more changed files are not returned", fmt.Sprintf("%d more files are kept", 1000-len(r.Files)))
	r = s.run(t, program("for i in range(100): open(f'{i}.png', 'w').write('no picture')"))
	outcome{any: true}.check(t, r)
	if len(r.Files) != 100 || len(r.Warnings) > 30 || len(r.Warnings) == 0 {
		t.Errorf("%d files, %d warnings", len(r.Files), len(r.Warnings))
	}
}
