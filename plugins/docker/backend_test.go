package docker

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func TestConformance(t *testing.T) {
	lab := newLab(t)
	executiontest.Run(t, lab.env)
}

// TestConformanceOnRunsc: the same sentences hold where each box has gVisor's kernel.
func TestConformanceOnRunsc(t *testing.T) {
	lab := newLab(t)
	info, err := lab.api.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := info.Runtimes["runsc"]; !known {
		if slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), "docker-runsc") {
			t.Fatal("the engine does not know the runtime runsc; hack/docker-up.sh runsc adds it")
		}
		t.Skip("the engine does not know the runtime runsc; hack/docker-up.sh runsc adds it")
	}
	lab.runtime = "runsc"
	executiontest.Run(t, lab.env)
}
