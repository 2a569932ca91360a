package core

import (
	"time"
	"unicode/utf8"
)

// Session is a box that stays for its owner between calls, with an interpreter that remembers.
type Session struct {
	ID      string // random, unguessable, [a-z0-9]; also names it in every tool
	Owner   string // the tenant; all calls check it
	Name    string // chosen by the owner, unique among the owner's; "" for the session of a connection
	Client  string // the connection that uses it when no id is given; "" for one that was made by name
	Backend string
	Box     string // the box's id in the backend
	Server  string // the server process that used it last
	Call    string // the run that goes on in it, if that server lives; other servers wait for its end
	Image   Image

	Requirements []string         // packages that were asked for, in their canonical form
	PythonPath   []string         // folders of installed packages in the box
	Installs     []PackageInstall // latest of those that were asked for apart from runs, the oldest first

	Created     time.Time
	Used        time.Time // when its last call ended, or a moment ago while one goes on: running is not idle
	IdleTimeout time.Duration
	MaxAge      time.Duration

	// Lost says why the session is over, in one sentence, for whoever asks next; "" while it lives. A
	// session that is over is kept for a while, so that its owner is told what happened to it.
	Lost string
}

// Expires is when the session ends by itself if nobody uses it again.
func (s Session) Expires() time.Time {
	idle, old := s.Used.Add(s.IdleTimeout), s.Created.Add(s.MaxAge)
	if idle.Before(old) {
		return idle
	}
	return old
}

// SessionInfo is a session and what goes on in it.
type SessionInfo struct {
	Session
	Busy    bool // a call runs in it
	Waiting int  // calls that wait for their turn
}

// maxSessionName bounds a session's name, in bytes.
const maxSessionName = 100

// CheckSessionName accepts any text that a person may call a session, and refuses what breaks a line.
func CheckSessionName(name string) error {
	switch {
	case name == "":
		return nil
	case len(name) > maxSessionName:
		return Errorf(ErrInvalid, "the name of a sandbox has %d bytes; at most %d are allowed", len(name), maxSessionName)
	case !utf8.ValidString(name):
		return Errorf(ErrInvalid, "the name of a sandbox is not UTF-8")
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f {
			return Errorf(ErrInvalid, "the name of a sandbox holds the control character %q", r)
		}
	}
	return nil
}

// Variable is one of a session's, as its interpreter described it: untrusted.
type Variable struct {
	Name  string
	Type  string // "DataFrame"
	Shape string // "3×4"; "" when it has none
	Size  int64  // bytes, as far as the interpreter knows; 0 when it does not
	Value string // shortened
}

// Display is a value that a program shows as a notebook would: one form of it, untrusted.
type Display struct {
	MIMEType string // text/plain, text/html, text/markdown, image/png, image/jpeg, image/svg+xml, application/json
	Data     []byte
}

// OutputPiece is a part of what a run has written so far to one stream.
type OutputPiece struct {
	Data   []byte
	Offset int64 // of the first byte of Data
	Total  int64 // bytes that the run has written so far
	Kept   int64 // of these, from the first on, how many can be read; the others are gone. A guest does not tell it.
	Ended  bool  // the run has ended: Total does not grow any more
}

// RunState is how far a run has come.
type RunState string

// The states of a run.
const (
	RunUnderWay RunState = "running"
	RunEnded    RunState = "ended" // it has a record
	RunLost     RunState = "lost"  // it was under way when its server or box was lost, and nobody knows how it ended
)

// Run is what is known of a run besides its record, for those who come back to it.
type Run struct {
	ID       string
	Owner    string
	Session  string // "" for a run with a box of its own
	Backend  string
	Box      string // "" before its program has begun in one, and before it begins anew
	InBox    string // the id by which its box knows it; "" is ID
	Server   string // the server process that looks after it
	Language string
	Summary  string // the first line of the code, shortened
	State    RunState
	Started  time.Time // when it was asked for
	Begun    time.Time // when its program began to run in the box; zero before that
	Ended    time.Time // zero while it is under way
	Timeout  time.Duration
	Record   Record  // once it has ended
	Failure  Failure // why there is none, when it could not be run
}

// Failure is an error that outlives the call that it ended.
type Failure struct {
	Kind    Kind // "" is no failure
	Message string
	Hint    string
}

// FailureOf keeps an error; nil is no failure.
func FailureOf(err error) Failure {
	if err == nil {
		return Failure{}
	}
	return Failure{Kind: KindOf(err), Message: MessageOf(err), Hint: HintOf(err)}
}

// Err is the error again, or nil.
func (f Failure) Err() error {
	if f.Kind == "" {
		return nil
	}
	return &Error{Kind: f.Kind, Message: f.Message, Hint: f.Hint}
}
