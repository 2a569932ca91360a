package docker

import (
	"io"
	"log"
	"testing"

	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func TestConformance(t *testing.T) {
	lab := newLab(t)
	executiontest.Run(t, lab.env)
}
