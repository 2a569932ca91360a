package core

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func goodSpec() BoxSpec { return BoxSpec{Image: "x", Limits: DefaultLimits()} }

func TestBoxSpecValidate(t *testing.T) {
	for name, spoil := range map[string]func(*BoxSpec){
		"limits":        func(s *BoxSpec) { s.Limits.PIDs = 1 },
		"digest":        func(s *BoxSpec) { s.Digest = "sha256:abc" },
		"volume":        func(s *BoxSpec) { s.Mounts = []Mount{{Volume: "/etc", Path: "/x"}} },
		"relative":      func(s *BoxSpec) { s.Mounts = []Mount{{Volume: "v", Path: "x"}} },
		"unclean":       func(s *BoxSpec) { s.Mounts = []Mount{{Volume: "v", Path: "/x/../y"}} },
		"over agent":    func(s *BoxSpec) { s.Mounts = []Mount{{Volume: "v", Path: "/opt"}} },
		"below agent":   func(s *BoxSpec) { s.Mounts = []Mount{{Volume: "v", Path: GuestBin + "/x"}} },
		"over the root": func(s *BoxSpec) { s.Mounts = []Mount{{Volume: "v", Path: "/"}} },
		"network":       func(s *BoxSpec) { s.Network = "host" },
		"option":        func(s *BoxSpec) { s.Preload = []string{"numpy", "--expires"} },
		"two modules":   func(s *BoxSpec) { s.Preload = []string{"numpy,pandas"} },
		"many modules":  func(s *BoxSpec) { s.Preload = slices.Repeat([]string{"numpy"}, 33) },
	} {
		s := goodSpec()
		spoil(&s)
		if err := s.Validate(); KindOf(err) != ErrInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s := goodSpec()
	s.Digest, s.Network = "sha256:"+strings.Repeat("a", 64), NetworkFull
	s.Mounts = []Mount{{Volume: "v", Path: "/opt/boxwright/env"}, {Volume: "v-2.x_y", Path: GuestWork, Writable: true}}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCheckHeld(t *testing.T) {
	enforced := map[Limit]Enforcement{
		LimitMemory: EnforcedCgroup, LimitPIDs: EnforcedRlimit, LimitDisk: EnforcedSandbox, LimitNetwork: EnforcedNot,
	} // and of the CPU nothing is said
	s := goodSpec()
	if _, err := s.CheckHeld(enforced); KindOf(err) != ErrUnsupported || HintOf(err) == "" || !strings.Contains(err.Error(), "cpu") {
		t.Errorf("refuse: %v", err)
	}
	s.Unenforced = UnenforcedWarn
	warnings, err := s.CheckHeld(enforced)
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "cpu") || !strings.Contains(warnings[1], "network") {
		t.Errorf("warn: %q, %v", warnings, err)
	}
}

func TestAgentArgs(t *testing.T) {
	s := goodSpec()
	if got := s.AgentArgs(nil); !slices.Equal(got, []string{"serve"}) {
		t.Errorf("got %q", got)
	}
	s.Labels.Expires = time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	s.Preload = []string{"numpy", "matplotlib.pyplot"}
	got := s.AgentArgs(map[Limit]Enforcement{LimitMemory: EnforcedRlimit, LimitPIDs: EnforcedRlimit, LimitCPU: EnforcedNot})
	want := []string{"serve", "--expires", "2026-01-02T02:04:05Z", "--max-memory", "2147483648", "--max-processes", "512", "--preload", "numpy,matplotlib.pyplot"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
