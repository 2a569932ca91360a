package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNobodyReadsTheServer: a client that dies closes all pipes at once. A server that the kernel ended
// for writing into one of them could not clean up.
func TestNobodyReadsTheServer(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	for name, closed := range map[string][]int{"stdout": {0}, "stderr": {1}, "both": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			server := exec.Command(filepath.Join(programs, "boxwright"), "serve", "--set", "storage.dir="+t.TempDir())
			server.Env = here().Environment(t.TempDir())
			stdin, err := server.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var readers [2]*os.File
			var writers [2]*os.File
			for i := range readers {
				if readers[i], writers[i], err = os.Pipe(); err != nil {
					t.Fatal(err)
				}
				defer readers[i].Close()
			}
			server.Stdout, server.Stderr = writers[0], writers[1]
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			writers[0].Close()
			writers[1].Close()
			for _, i := range closed {
				readers[i].Close()
			}
			// Both an answer and a line for the log.
			_, _ = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python_ephemeral","arguments":{}}}`+"\n")
			stdin.Close()
			if err := server.Wait(); err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}
