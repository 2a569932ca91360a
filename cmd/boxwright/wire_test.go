package main

import (
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// The operator's limits bound each box, those that packages are installed in too.
func TestInstallerBoxesAreLimited(t *testing.T) {
	c := config.Default()
	if got, want := appSettings(c).InstallSize, core.DefaultLimits(); got != want {
		t.Errorf("by default they get %+v, want %+v", got, want)
	}
	c.Limits = config.Limits{Memory: 256 << 20, CPUs: 0.5, PIDs: 64, Disk: 8 << 20}
	got := appSettings(c).InstallSize
	if want := (core.Limits{MemoryBytes: 256 << 20, CPUs: 0.5, PIDs: 64, DiskBytes: 64 << 20}); got != want {
		t.Errorf("they get %+v, want %+v", got, want)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsKeptOfEnvironments(t *testing.T) {
	c := config.Default()
	c.Dependencies.Keep = config.Keep{MaxSize: 5 << 30, MaxAge: config.Duration(time.Hour)}
	if got, want := appSettings(c).Keep, (app.Keep{MaxSize: 5 << 30, MaxAge: time.Hour}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
