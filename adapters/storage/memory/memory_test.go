package memory_test

import (
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/memory"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/artifact/artifacttest"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/dependency/dependencytest"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/identity/identitytest"
	"github.com/boxwright/boxwright/ports/session/sessiontest"
)

func TestArtifacts(t *testing.T) {
	artifacttest.Run(t, artifacttest.Harness{
		New:   func(*testing.T) artifact.Store { return memory.NewArtifacts(0) },
		Small: func(*testing.T) artifact.Store { return memory.NewArtifacts(100) },
	})
}

func TestEnvironments(t *testing.T) {
	dependencytest.Run(t, func(*testing.T) dependency.Index { return memory.NewEnvironments() })
}

func sessions() sessiontest.Harness {
	return sessiontest.Harness{Open: func(*testing.T, string) sessiontest.Opened {
		return sessiontest.Opened{Sessions: memory.NewSessions(), Runs: memory.NewRuns(), Close: func() error { return nil }}
	}}
}

func TestSessions(t *testing.T) { sessiontest.RunStore(t, sessions()) }

func TestRuns(t *testing.T) { sessiontest.RunRuns(t, sessions()) }

func TestIdentity(t *testing.T) {
	identitytest.Run(t, identitytest.Harness{Open: func(*testing.T, string) identity.Store { return memory.NewIdentity() }})
}
