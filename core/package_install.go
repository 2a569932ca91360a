package core

import "time"

// InstallState is how far the installation of packages into a session has come.
type InstallState string

// The states.
const (
	InstallUnderWay InstallState = "installing"
	InstallDone     InstallState = "installed"
	InstallFailed   InstallState = "failed"
)

// PackageInstall is an installation of packages into a session that goes on by itself. The session's store keeps
// it, so that whoever asks for it is answered by any server of the installation.
type PackageInstall struct {
	Packages []string // requirements in their canonical form
	State    InstallState
	Server   string // the server process that installs them
	Started  time.Time
	Ended    time.Time // zero while it is under way
	Log      string    // the installer's last lines so far: untrusted
	Failure  Failure   // why they are not installed
}

// Elapsed is how long it has taken, by now if it is under way; 0 when nobody noted its beginning.
func (i PackageInstall) Elapsed(now time.Time) time.Duration {
	if i.State != InstallUnderWay {
		now = i.Ended
	}
	if i.Started.IsZero() || now.Before(i.Started) {
		return 0
	}
	return now.Sub(i.Started)
}
