package core

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Validate reports the first thing in the spec that no backend makes a box of.
func (s BoxSpec) Validate() error {
	if err := s.Limits.Validate(); err != nil {
		return err
	}
	if s.Digest != "" && !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(s.Digest) {
		return Errorf(ErrInvalid, "%q is not an image's digest", s.Digest)
	}
	for _, m := range s.Mounts {
		if err := CheckVolumeName(m.Volume); err != nil {
			return err
		}
		overAgent := IsWithin(m.Path, GuestBin) || IsWithin(GuestBin, m.Path)
		if !path.IsAbs(m.Path) || path.Clean(m.Path) != m.Path || overAgent {
			return Errorf(ErrInvalid, "a volume cannot be mounted at %q", m.Path)
		}
	}
	if s.Network != NetworkNone && s.Network != NetworkFull {
		return Errorf(ErrInvalid, "%q is not a network", string(s.Network))
	}
	return CheckModules(s.Preload)
}

// maxModules bounds how many modules a box may preload, and maxModuleName the name of one, in bytes.
const (
	maxModules    = 32
	maxModuleName = 100
)

// CheckModules refuses what are not names of Python modules: they become an argument, joined by commas.
func CheckModules(names []string) error {
	if len(names) > maxModules {
		return Errorf(ErrInvalid, "%d modules are too many to preload; at most %d are allowed", len(names), maxModules)
	}
	module := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
	for _, name := range names {
		if len(name) > maxModuleName || !module.MatchString(name) {
			return Errorf(ErrInvalid, "%.60q is not a name of a Python module", name)
		}
	}
	return nil
}

// CheckHeld compares the spec's limits with how an engine enforces each. It returns one warning
// for each that does not hold, or ErrUnsupported unless the spec is content with a warning.
func (s BoxSpec) CheckHeld(enforced map[Limit]Enforcement) (warnings []string, err error) {
	for _, limit := range AllLimits() {
		if how := enforced[limit]; how != EnforcedNot && how != "" {
			continue
		}
		if s.Unenforced != UnenforcedWarn {
			return nil, Errorf(ErrUnsupported, "this engine cannot enforce the %s limit", limit).
				WithHint("enable the control groups of the engine's machine, or set limits.unenforced to warn")
		}
		warnings = append(warnings, fmt.Sprintf("the %s limit does not hold: this engine cannot enforce it", limit))
	}
	return warnings, nil
}

// AgentArgs are the arguments of the box's agent: when it ends by itself, should nobody be left
// to end it, the limits that it enforces in the engine's place, and the modules to preload. Nothing of the image
// runs by itself in a box that writes where others read, nor where no program of a client's is to run.
func (s BoxSpec) AgentArgs(enforced map[Limit]Enforcement) []string {
	args := []string{"serve"}
	if !s.Labels.Expires.IsZero() {
		args = append(args, "--expires", s.Labels.Expires.UTC().Format(time.RFC3339))
	}
	if enforced[LimitMemory] == EnforcedRlimit {
		args = append(args, "--max-memory", strconv.FormatInt(s.Limits.MemoryBytes, 10))
	}
	if enforced[LimitPIDs] == EnforcedRlimit {
		args = append(args, "--max-processes", strconv.FormatInt(s.Limits.PIDs, 10))
	}
	switch s.Labels.Purpose {
	case PurposeInstall, PurposeCompile, PurposeKeep:
		args = append(args, "--bare")
	default:
	}
	if len(s.Preload) > 0 {
		args = append(args, "--preload", strings.Join(s.Preload, ","))
	}
	return args
}

// CheckVolumeName refuses what is not a name of a volume: it may become a part of a URL or of a path.
func CheckVolumeName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,127}$`).MatchString(name) {
		return Errorf(ErrInvalid, "%q is not a name of a volume", name)
	}
	return nil
}

// IsWithin reports whether the clean, absolute path p is folder, or below it.
func IsWithin(p, folder string) bool {
	return strings.HasPrefix(strings.TrimSuffix(p, "/")+"/", strings.TrimSuffix(folder, "/")+"/")
}
