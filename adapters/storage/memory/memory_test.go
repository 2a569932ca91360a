package memory_test

import (
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/memory"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/artifact/artifacttest"
)

func TestArtifacts(t *testing.T) {
	artifacttest.Run(t, artifacttest.Harness{
		New:   func(*testing.T) artifact.Store { return memory.NewArtifacts(0) },
		Small: func(*testing.T) artifact.Store { return memory.NewArtifacts(100) },
	})
}
