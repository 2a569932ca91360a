package core

import "time"

// Request is a program that somebody wants to run once. Nothing in it is checked yet.
type Request struct {
	Code         string         // Python source
	Dependencies []string       // requirements of packages
	Image        string         // "" is the operator's default
	Backend      string         // "" leaves it to the operator
	Timeout      *time.Duration // nil is the operator's default
	Stdin        *string        // nil is closed
	Files        []Input
	Tenant       string // the owner of all that comes of it
}

// Input is a file put into the workspace before the run.
type Input struct {
	Name    string // relative path
	Content []byte
}
