package app

import (
	"errors"
	"testing"
	"time"
)

// TestOldTriesAreForgotten: a server that runs for long does not remember each environment and each image.
func TestOldTriesAreForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	var tries compiles
	first, _ := tries.begin("a", now)
	tries.end("a", first, errors.New("no room"))
	if again, fresh := tries.begin("a", now.Add(compilePause-1)); fresh || again != first {
		t.Error("what has just failed is tried again")
	}
	tries.begin("b", now.Add(compilePause))
	if len(tries.all) != 1 || tries.all["b"] == nil {
		t.Errorf("remembered are %v", tries.all)
	}
	var looks trims
	if !looks.due("a", now) || looks.due("a", now.Add(trimEvery-1)) {
		t.Error("a cache is looked at too rarely or too often")
	}
	if !looks.due("b", now.Add(trimEvery)) || len(looks.last) != 1 {
		t.Errorf("remembered are %v", looks.last)
	}
}
