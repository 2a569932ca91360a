package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestPlan(t *testing.T) {
	data := func(volume string) string { return "/state/volumes/" + volume + "/data" }
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, spec := range map[string]core.BoxSpec{
		"run": {Image: core.ImageHost, Limits: core.DefaultLimits()},
		"session": {
			Image: core.ImageHost, Labels: core.Labels{Expires: expires},
			Limits: core.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 100, DiskBytes: 64 << 20},
			Mounts: []core.Mount{{Volume: "work", Path: core.GuestWork, Writable: true}, {Volume: "env", Path: core.GuestEnvironment}},
		},
	} {
		got := strings.ReplaceAll(strings.Join(plan(spec, "/agent", data), " "), " --", "\n--") + "\n"
		path := filepath.Join("..", "..", "testdata", "plan", "example", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the plan is not %s; run with -update and review the diff. It is:\n%s", path, got)
		}
	}
}
