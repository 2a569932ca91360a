package gvisor

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func TestMain(m *testing.M) {
	if was, err := Stage(); was { // a box with a network starts from this very executable
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	lab := newLab(t, "gvisor")
	executiontest.Run(t, lab.env)
}
