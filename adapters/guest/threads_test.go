package guest_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// TestAgentNeedsNoMoreThreads: once a program has taken every process of the box, the kernel gives the agent
// and the stream no thread any more, and neither may need one, however much is asked of them.
func TestAgentNeedsNoMoreThreads(t *testing.T) {
	g := start(t, pythonImage, runc.option()...)
	want{stdout: "1\n", files: []string{"big:8000000"}}.check(t, run(t, g, python("open('/work/big', 'wb').write(bytes(8 * 10**6)); print(1)")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	full := make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := g.Run(ctx, allProcesses(), func(_ core.Stream, data []byte) {
			if strings.Contains(string(data), "full") {
				once.Do(func() { close(full) })
			}
		})
		ended <- err
	}()
	select {
	case <-full:
	case err := <-ended:
		t.Fatalf("the program ended before it had all processes: %v", err)
	}
	askMuch(t, g)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the program that had all processes: %v", err)
	}
	want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
}

// allProcesses is a program that takes the place of every process that ends.
func allProcesses() core.RunSpec {
	spec := python(`
import os, time
told = False
while True:
    try:
        if os.fork() == 0: time.sleep(1000)
    except OSError:
        if not told: print('full', flush=True)
        told = True
        time.sleep(0.001)`)
	spec.Timeout, spec.Stream = time.Minute, true
	return spec
}

// askMuch has the agent do many things at the same time, for about a second.
func askMuch(t *testing.T, g execution.Guest) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range 48 {
		wait.Go(func() {
			for until := time.Now().Add(time.Second); time.Now().Before(until); {
				var err error
				if i%2 == 0 {
					_, err = g.ReadFile(t.Context(), "big", io.Discard, 1<<30)
				} else {
					err = g.WriteFile(t.Context(), fmt.Sprintf("small%d", i), strings.NewReader(strings.Repeat("x", 100_000)))
				}
				if err != nil {
					t.Errorf("the agent does not serve any more: %v", err)
					return
				}
			}
		})
	}
	wait.Wait()
}
