package sdk

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// watchInterval is how often a plugin looks whether its host lives.
const watchInterval = 250 * time.Millisecond

// outliveSignals makes the plugin ignore the signals that a terminal or a service manager sends
// to every process of a service: the host needs the plugin until its own clean-up is done.
func outliveSignals() {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

// exitWithHost ends the process soon after its parent died, also by SIGKILL. The broken
// connection has ended the contexts of all calls by then; they get a moment to undo.
func exitWithHost(s *server) {
	host := os.Getppid()
	for os.Getppid() == host {
		time.Sleep(watchInterval)
	}
	s.drain(drainTime)
	os.Exit(1)
}
