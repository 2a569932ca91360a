package daemontest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Golden compares a backend's plan with its file below testdata/plan, or rewrites the file. The
// test's program has a flag -update for that.
func Golden(t *testing.T, backend, name string, plan any) {
	t.Helper()
	got, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "..", "..", "testdata", "plan", backend, name+".golden")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // golden files are nobody's secret
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a path of the test's own
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the plan is not %s; run with -update and review the diff. It is:\n%s", path, got)
	}
}
