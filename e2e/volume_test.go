package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestTwentyMegabytes: a lot of output costs little more than printing it, and no memory. It
// runs by itself, for the sake of its times.
func TestTwentyMegabytes(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{})
	outcome{stdout: "hello\n"}.check(t, s.run(t, program("print('hello')")))
	before := s.peakMemory(t)
	const lines = 20_000
	r := s.run(t, program(fmt.Sprintf(`import sys, time
began = time.time()
for i in range(%d): sys.stdout.write('%%999d\n' %% i)
sys.stdout.flush()
print(time.time() - began, file=sys.stderr)`, lines)))
	outcome{any: true}.check(t, r)

	shown := strings.Split(strings.SplitN(r.Stdout, "\n[… ", 2)[0], "\n")
	if strings.TrimSpace(shown[1]) != "1" || !strings.HasSuffix(r.Stdout, " 19999\n") {
		t.Error("head or tail is not the program's")
	}
	if size := r.file(t, "stdout.txt").Size; size != lines*1000 {
		t.Errorf("%d bytes were kept, want %d", size, lines*1000)
	}
	own, err := strconv.ParseFloat(strings.TrimSpace(r.Stderr), 64)
	if err != nil {
		t.Fatal(err)
	}
	beyond := r.DurationMS["total"]/1000 - own
	grown := s.peakMemory(t) - before
	t.Logf("the program took %.2f s, the call %.2f s more; the server grew by %d KiB", own, beyond, grown>>10)
	if grown > 32<<20 {
		t.Errorf("the server grew by %d KiB", grown>>10)
	}
}

// TestTwentyAtOnce: each of 20 runs at once gets its own output and its own files.
func TestTwentyAtOnce(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{})
	var all sync.WaitGroup
	for i := range 20 {
		c := s.send(t, program(fmt.Sprintf("print(%d)\nopen('f', 'w').write('%d')", i, i)), nil)
		all.Go(func() {
			<-c.done
			if c.err != nil {
				t.Errorf("run %d: %v", i, c.err)
				return
			}
			r := decode(t, c.answer)
			outcome{stdout: fmt.Sprintln(i), files: []string{"f"}}.check(t, r)
			if got, err := s.tryRead(r.Files[0].URI); err != nil || string(got) != strconv.Itoa(i) {
				t.Errorf("run %d has the file of another: %q, %v", i, got, err)
			}
		})
	}
	all.Wait()
	s.awaitNoBoxes(t)
}
