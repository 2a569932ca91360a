package core

import "time"

// Request is a program that somebody wants to run. Nothing in it is checked yet.
type Request struct {
	Code     string
	Language string // "" is Python
	Command  string // in place of Code: a line for the box's shell
	Dir      string // working directory, relative to the workspace; "" is the workspace
	Env      map[string]string

	Dependencies []string       // requirements of packages
	Image        string         // "" is the operator's default
	Backend      string         // "" leaves it to the operator
	Timeout      *time.Duration // nil is the operator's default
	Stdin        *string        // nil is closed
	OpenStdin    bool           // more input may come while it runs
	Files        []Input
	Background   bool // the answer does not wait for the end
	AutoInstall  bool // packages that it turns out to lack are installed, and it runs again

	Tenant string // the owner of all that comes of it
	Client string // the connection that it came on
}

// SessionRequest asks for a session. Nothing in it is checked yet.
type SessionRequest struct {
	Name         string
	Dependencies []string
	Image        string
	Backend      string
	IdleTimeout  *time.Duration // nil is the operator's
	Tenant       string
	Client       string // "": it is not a connection's own
}

// Input is a file put into the workspace before the run.
type Input struct {
	Name    string // relative path
	Content []byte
}
