package dependency

import (
	"regexp"

	"github.com/boxwright/boxwright/core"
)

// MaxText bounds the lock and the report of an environment, in bytes each: they come from an installer's box.
const MaxText = 4 << 20

// CheckEnvironment is what every index asks of an environment that is put.
func CheckEnvironment(e core.Environment) error {
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`).MatchString(e.Key) {
		return core.Errorf(core.ErrInvalid, "%.150q is not the key of an environment", e.Key)
	}
	if len(e.Lock) > MaxText || len(e.Report) > MaxText {
		return core.Errorf(core.ErrInvalid, "the lock or the report of an environment is too long: at most %s are kept", core.FormatBytes(MaxText))
	}
	return nil
}

// Brief is an environment without its lock and its report.
func Brief(e core.Environment) core.Environment {
	e.Lock, e.Report = "", ""
	return e
}

// Unknown is the error for a key that no environment has.
func Unknown(key string) error {
	return core.Errorf(core.ErrNotFound, "no environment %.150q is installed", key)
}
