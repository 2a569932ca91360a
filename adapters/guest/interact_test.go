package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// begin starts a run and returns once it has printed something.
func begin(t *testing.T, g execution.Guest, spec core.RunSpec) (exits <-chan core.Exit) {
	t.Helper()
	ended := make(chan core.Exit, 1)
	go func() {
		exit, err := g.Run(t.Context(), spec, nil)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		ended <- exit
	}()
	await(t, g, spec.ID, "")
	return ended
}

// await returns once what a run has printed ends with text.
func await(t *testing.T, g execution.Guest, id, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		out := started(t, g, id)
		if out != "" && strings.HasSuffix(out, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has printed %q, which does not end with %q", id, out, text)
		}
	}
}

// TestStdinIsWritten while the program runs, which answers.
func TestStdinIsWritten(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		const loop = "print('go', flush=True)\nwhile True:\n    try: print('<' + input() + '>', flush=True)\n    except EOFError: print('end'); break"
		shell := kept("sh", "-c", `echo go; while read -r x; do echo "<$x>"; done; echo end`)
		for name, spec := range map[string]core.RunSpec{"one shot": python(loop), "cell": cell(loop), "command": shell} {
			t.Run(name, func(t *testing.T) {
				spec.OpenStdin, spec.Stdin = true, []byte("0\n")
				ended := begin(t, g, spec)
				await(t, g, spec.ID, "<0>\n")
				for i := range 3 {
					if _, err := g.WriteStdin(t.Context(), spec.ID, fmt.Appendf(nil, "%d\n", i), false); err != nil {
						t.Fatal(err)
					}
					await(t, g, spec.ID, fmt.Sprintf("<%d>\n", i))
				}
				if _, err := g.WriteStdin(t.Context(), spec.ID, []byte("last\n"), true); err != nil {
					t.Fatal(err)
				}
				want{stdout: "go\n<0>\n<0>\n<1>\n<2>\n<last>\nend\n"}.check(t, <-ended)
				for id, kind := range map[string]core.Kind{spec.ID: core.ErrNotFound, "unknown": core.ErrNotFound, "": core.ErrInvalid} {
					if _, err := g.WriteStdin(t.Context(), id, []byte("x"), false); core.KindOf(err) != kind {
						t.Errorf("%q: got %v, want %s", id, err, kind)
					}
				}
			})
		}
	})
}

// until is the line of Python that waits for a release of that name.
func until(name string) string {
	return fmt.Sprintf("\nwhile not os.path.exists('/work/%s'): time.sleep(.01)", name)
}

func release(t *testing.T, g execution.Guest, name string) {
	t.Helper()
	if err := g.WriteFile(t.Context(), name, strings.NewReader("")); err != nil {
		t.Error(err)
	}
}

// fillStdin writes to a program that does not read until a call finds no room, and returns what was taken before.
func fillStdin(t *testing.T, g execution.Guest, id string) (taken int64) {
	t.Helper()
	for range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		n, err := g.WriteStdin(ctx, id, make([]byte, 4<<20), false)
		cancel()
		if core.KindOf(err) != core.ErrTimeout {
			t.Fatalf("%d of 4 MB went into a pipe: %v", n, err)
		}
		if taken += n; taken > 0 && n == 0 {
			return taken
		}
	}
	t.Fatalf("after %d bytes there is still room", taken)
	return taken
}

// TestStdinIsBounded: a program that does not read holds its writer up, and nobody else.
func TestStdinIsBounded(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		spec := python("import os, sys, time\nprint('go', flush=True)" + until("read") + "\nprint(len(sys.stdin.buffer.read()))")
		spec.OpenStdin = true
		ended := begin(t, g, spec)
		const pipe, piece = 1 << 20, 1 << 20 // bytes that a pipe holds, and that a call offers at once, at the most
		taken := fillStdin(t, g, spec.ID)
		if taken < 4<<10 || taken > pipe {
			t.Errorf("%d bytes went into a pipe", taken)
		}
		release(t, g, "read")
		if _, err := g.WriteStdin(t.Context(), spec.ID, make([]byte, 3<<20), true); err != nil {
			t.Error(err)
		}
		exit := <-ended
		var n int64 // with what was taken although the answer came too late
		if _, err := fmt.Sscanf(string(exit.Stdout.Head), "go\n%d\n", &n); err != nil || n < 3<<20+taken || n > 3<<20+pipe+piece {
			t.Errorf("%d bytes were taken, %s", taken, describe(exit))
		}
		closed := python("import os, time\nos.close(0); print('go', flush=True)" + until("told"))
		closed.OpenStdin = true
		ended = begin(t, g, closed)
		if _, err := g.WriteStdin(t.Context(), closed.ID, []byte("x"), false); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("closed by the program: %v", err)
		}
		release(t, g, "told")
		<-ended
		none := python("import os, time\nprint('go', flush=True)" + until("heard"))
		ended = begin(t, g, none)
		if _, err := g.WriteStdin(t.Context(), none.ID, []byte("x"), false); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("never open: %v", err)
		}
		release(t, g, "heard")
		<-ended
	})
}

// TestOutputIsPaged while the program runs, and after that.
func TestOutputIsPaged(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		spec := python("import sys\nfor i in range(1000): print('%06d' % i)\nsys.stderr.write('e'); sys.stderr.flush()\nsys.stdout.flush(); input(); print('last')")
		spec.OpenStdin, spec.Output = true, core.OutputLimits{Head: 10, Tail: 10, Spill: 7005}
		ended := begin(t, g, spec)
		for {
			out, err := page(t, g, spec.ID, core.Stdout, 0, 10), page(t, g, spec.ID, core.Stderr, 0, 10)
			if out.Total == 7000 && err.Total == 1 {
				break
			}
		}
		if p := page(t, g, spec.ID, core.Stdout, 6993, 100); string(p.Data) != "000999\n" || p.Total != 7000 || p.Ended || p.Offset != 6993 {
			t.Errorf("while it runs: %+v", p)
		}
		if p := page(t, g, spec.ID, core.Stdout, 7000, 100); len(p.Data) > 0 || p.Total != 7000 || p.Ended {
			t.Errorf("nothing yet: %+v", p)
		}
		if p := page(t, g, spec.ID, core.Stdout, 7, 7); string(p.Data) != "000001\n" {
			t.Errorf("a small page: %+v", p)
		}
		if _, err := g.WriteStdin(t.Context(), spec.ID, []byte("\n"), false); err != nil {
			t.Error(err)
		}
		<-ended
		if p := page(t, g, spec.ID, core.Stdout, 7000, 100); string(p.Data) != "last\n" || p.Total != 7005 || !p.Ended {
			t.Errorf("at its end: %+v", p)
		}
		var all bytes.Buffer
		if n, err := g.ReadOutput(t.Context(), spec.ID, core.Stdout, &all, 1<<20); err != nil || n != 7005 || !strings.HasSuffix(all.String(), "last\n") {
			t.Errorf("all of it: %d %v", n, err)
		}
		for _, c := range []struct {
			run           string
			stream        core.Stream
			offset, limit int64
			want          core.Kind
		}{
			{"unknown", core.Stdout, 0, 1, core.ErrNotFound},
			{spec.ID, "stdin", 0, 1, core.ErrInvalid},
			{spec.ID, core.Stdout, -1, 1, core.ErrInvalid},
			{spec.ID, core.Stdout, 0, 0, core.ErrInvalid},
		} {
			if _, err := g.Output(t.Context(), c.run, c.stream, c.offset, c.limit); core.KindOf(err) != c.want {
				t.Errorf("%+v: got %v", c, err)
			}
		}
	})
}

func page(t *testing.T, g execution.Guest, run string, stream core.Stream, offset, limit int64) core.OutputPiece {
	t.Helper()
	piece, err := g.Output(t.Context(), run, stream, offset, limit)
	if err != nil {
		t.Fatal(err)
	}
	return piece
}

// TestAnotherServer takes up a session, its variables and a run that is under way.
func TestAnotherServer(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		require(t, pythonImage)
		b := newBox(t, pythonImage, k.option()...)
		first := connect(t, b)
		spec := cell("import os, time\nx = 1; print('go', flush=True)" + until("asked") + "\nprint('done'); x + 1")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lost := make(chan struct{})
		go func() {
			defer close(lost)
			_, _ = first.Run(ctx, spec, nil)
		}()
		await(t, first, spec.ID, "")
		_ = first.Close() // as if its process had ended
		second := connect(t, b)
		if _, err := second.Variables(t.Context()); core.KindOf(err) != core.ErrUnavailable {
			t.Errorf("variables while code runs: %v", err)
		}
		release(t, second, "asked")
		exit, err := second.Attach(t.Context(), spec.ID)
		if err != nil || string(exit.Stdout.Head) != "go\ndone\n" || shown(exit) != "plain:2" {
			t.Errorf("%v %s", err, describe(exit))
		}
		if _, err := second.Attach(t.Context(), "unknown"); core.KindOf(err) != core.ErrNotFound {
			t.Errorf("an unknown run: %v", err)
		}
		want{stdout: "1\n"}.check(t, run(t, second, cell("print(x)")))
		if err := second.Kill(t.Context(), "unknown"); err != nil {
			t.Errorf("kill of an unknown run: %v", err)
		}
		cancel()
		<-lost
	})
}

// TestCodeInAFile: any program gets code in a file that is there while it runs, and never afterwards.
func TestCodeInAFile(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, kept("mkdir", "-p", "d"))
		for _, c := range []struct {
			name, code, file, dir string
			argv                  []string
			want                  want
		}{
			{name: "shell", code: "echo \"$1\" \"${0##*.}\"; ls -A | wc -l", file: "{file}.sh", argv: []string{"sh", "{file}.sh", "{file}"}, want: want{stdout: "{file} sh\n2\n"}},
			{name: "python", code: "import sys, os; print(os.path.dirname(sys.argv[0]), oct(os.stat(sys.argv[0]).st_mode))", file: "{file}.py", dir: "d", argv: []string{"python3", "{file}.py"}, want: want{stdout: "/work/d 0o100600\n"}},
			{name: "no ending", code: "exit 3", file: "{file}", argv: []string{"sh", "{file}"}, want: want{code: 3}},
			{name: "NUL", code: "a\x00b", file: "{file}", argv: []string{"wc", "-c", "{file}"}, want: want{stdout: "*"}},
			{name: "moved folder", code: "mv /work/d /work/e; echo x >/work/e/kept", file: "{file}", dir: "d", argv: []string{"sh", "{file}"}, want: want{files: []string{"e/kept:2"}}},
			{name: "nothing is left", code: "find /work -name '.box*'", file: "{file}", dir: "/tmp", argv: []string{"sh", "{file}"}, want: want{}},
		} {
			t.Run(c.name, func(t *testing.T) {
				spec := kept(c.argv...)
				spec.Code, spec.CodeFile, spec.Dir = []byte(c.code), c.file, c.dir
				exit := run(t, g, spec)
				if c.want.stdout == "*" {
					exit.Stdout.Head = []byte("*")
				}
				c.want.check(t, exit)
			})
		}
		for name, spec := range map[string]core.RunSpec{
			"a path":       {Code: []byte("x"), Argv: []string{"{file}/../x"}, CodeFile: "{file}/../x"},
			"no mark":      {Code: []byte("x"), Argv: []string{"x"}, CodeFile: "x"},
			"not in it":    {Code: []byte("x"), Argv: []string{"x"}, CodeFile: "{file}.x"},
			"no name":      {Code: []byte("x"), Argv: []string{"x"}},
			"no command":   {Code: []byte("x"), CodeFile: "{file}"},
			"no code":      {Argv: []string{"{file}"}, CodeFile: "{file}"},
			"in a session": {Argv: []string{"x"}, Session: true},
		} {
			spec.ID = name
			if _, err := g.Run(t.Context(), spec, nil); core.KindOf(err) != core.ErrInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestFilesAreListedAndRemoved, and no link is followed.
func TestFilesAreListedAndRemoved(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, kept("sh", "-c", "mkdir -p d/e; echo 1 >a; echo 12 >d/b; echo 123 >d/e/c; ln -s a ln; ln -s d dir; ln -s /etc out; mkfifo fifo"))
		for dir, want := range map[string][2]string{
			"":    {"a file 2, d folder 0, dir link 0, fifo other 0, ln link 0, out link 0", "a file 2, d folder 0, d/b file 3, d/e folder 0, d/e/c file 4, dir link 0, fifo other 0, ln link 0, out link 0"},
			"d":   {"d/b file 3, d/e folder 0", "d/b file 3, d/e folder 0, d/e/c file 4"},
			"d/e": {"d/e/c file 4", "d/e/c file 4"},
		} {
			for i, recursive := range []bool{false, true} {
				files, err := g.ListFiles(t.Context(), dir, recursive)
				if got := listing(files); err != nil || got != want[i] {
					t.Errorf("%q, %v: %v %v", dir, recursive, got, err)
				}
			}
		}
		for dir, kind := range map[string]core.Kind{
			"none": core.ErrNotFound, "a": core.ErrInvalid, "dir": core.ErrInvalid, "out": core.ErrInvalid, "dir/e": core.ErrInvalid,
			"..": core.ErrInvalid, "/work": core.ErrInvalid, "d/../d": core.ErrInvalid, "fifo": core.ErrInvalid,
		} {
			if _, err := g.ListFiles(t.Context(), dir, true); core.KindOf(err) != kind {
				t.Errorf("list %q: got %v, want %s", dir, err, kind)
			}
		}
		for path, kind := range map[string]core.Kind{
			"none": core.ErrNotFound, "d": core.ErrInvalid, "dir/b": core.ErrInvalid, "out/passwd": core.ErrInvalid,
			"../work/a": core.ErrInvalid, "/work/a": core.ErrInvalid, "": core.ErrInvalid,
		} {
			if err := g.RemoveFile(t.Context(), path); core.KindOf(err) != kind {
				t.Errorf("remove %q: got %v, want %s", path, err, kind)
			}
		}
		for _, path := range []string{"d/b", "ln", "dir", "fifo"} {
			if err := g.RemoveFile(t.Context(), path); err != nil {
				t.Errorf("remove %q: %v", path, err)
			}
		}
		var text bytes.Buffer
		if _, err := g.ReadFile(t.Context(), "a", &text, 10); err != nil || text.String() != "1\n" {
			t.Errorf("what the link led to: %q %v", &text, err)
		}
		want{stdout: "a\nd\nd/e\nd/e/c\nout\n"}.check(t, run(t, g, kept("sh", "-c", "find . -mindepth 1 | sed s,./,, | sort")))
		run(t, g, cell("import os; os.mkdir('many')\nfor i in range(10050): open('many/%d' % i, 'w').close()"))
		files, err := g.ListFiles(t.Context(), "many", false)
		if core.KindOf(err) != core.ErrExhausted || len(files) != 10000 {
			t.Errorf("too many: %d %v", len(files), err)
		}
	})
}

func listing(files []core.FileEntry) string {
	lines := make([]string, len(files))
	for i, f := range files {
		lines[i] = fmt.Sprintf("%s %s %d", f.Path, f.Kind, f.Size)
		if age := time.Since(f.Modified); age < -time.Hour || age > time.Hour {
			lines[i] += f.Modified.String()
		}
	}
	return strings.Join(lines, ", ")
}

// TestFilesAreReadInPieces, of which each says how long the file is.
func TestFilesAreReadInPieces(t *testing.T) {
	g := start(t, pythonImage)
	run(t, g, kept("sh", "-c", "printf 0123456789 >f; : >empty; ln -s f link; mkfifo fifo; mkdir d"))
	for _, c := range []struct {
		path          string
		offset, limit int64
		want          string
		total         int64
	}{
		{"f", 0, 4, "0123", 10},
		{"f", 8, 4, "89", 10},
		{"f", 10, 4, "", 10},
		{"f", 99, 4, "", 10},
		{"f", 0, 10, "0123456789", 10},
		{"empty", 0, 4, "", 0},
	} {
		p, err := g.ReadPiece(t.Context(), c.path, c.offset, c.limit)
		if err != nil || string(p.Data) != c.want || p.Total != c.total || p.Offset != c.offset {
			t.Errorf("%+v: got %q of %d, %v", c, p.Data, p.Total, err)
		}
	}
	for path, kind := range map[string]core.Kind{
		"none": core.ErrNotFound, "link": core.ErrInvalid, "fifo": core.ErrInvalid, "d": core.ErrInvalid, "../work/f": core.ErrInvalid, "/work/f": core.ErrInvalid, "a\x00": core.ErrInvalid,
	} {
		if _, err := g.ReadPiece(t.Context(), path, 0, 1); core.KindOf(err) != kind {
			t.Errorf("%q: got %v, want %s", path, err, kind)
		}
	}
	for _, span := range [][2]int64{{-1, 1}, {0, 0}} {
		if _, err := g.ReadPiece(t.Context(), "f", span[0], span[1]); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%v: got %v", span, err)
		}
	}
}

// TestInstalledLater: packages that come while a session lives can be imported.
func TestInstalledLater(t *testing.T) {
	g := start(t, pythonImage)
	want{code: 1, stderr: "ModuleNotFoundError"}.check(t, run(t, g, cell("import sys, pack")))
	run(t, g, kept("sh", "-c", "mkdir -p /work/site; echo 'x = 5' >/work/site/pack.py; echo '1/0' >/work/site/json.py"))
	spec := cell("import json, pack; print(pack.x, sys.path.index('/work/site') < sys.path.index('/work'))")
	spec.PythonPath = []string{"/work/site"}
	want{stdout: "5 True\n"}.check(t, run(t, g, spec))
	want{stdout: "1\n"}.check(t, run(t, g, cell("print(sys.path.count('/work/site'))")))
	newer := `import os
for name, text in {'pack.py': 'x = 6', 'pack-2.0.dist-info/RECORD': 'pack.py,,', 'more.py': 'y = 7'}.items():
    os.makedirs(os.path.dirname('/work/newer/' + name), exist_ok=True)
    print(text, file=open('/work/newer/' + name, 'w'))`
	run(t, g, cell(newer))
	spec = cell("import more; print(pack.x, more.y, sys.path.index('/work/newer') < sys.path.index('/work/site'), os.environ['PYTHONPATH'])")
	spec.PythonPath = []string{"/work/newer", "/work/site"}
	exit := run(t, g, spec)
	want{stdout: "5 7 True /work/newer:/work/site\n"}.check(t, exit)
	told := "pack of another origin is imported already: the 2.0 that was added is not used by code that runs in this interpreter"
	if !slices.Equal(exit.Warnings, []string{told}) {
		t.Errorf("the warnings are %q", exit.Warnings)
	}
	spec.ID += "-again"
	if exit := run(t, g, spec); len(exit.Warnings) > 0 {
		t.Errorf("told again: %q", exit.Warnings)
	}
}
