package core

import "time"

// RunSpec is one program for the agent in a box.
type RunSpec struct {
	ID string // unique in the box; chosen by the caller, so that a lost stream can be taken up again

	// At least one of Code and Argv is set. Code alone is Python source, run as __main__. Argv is a program and
	// its arguments, without a shell; with both, the code lies in a file in the working directory while the
	// program runs, whose name is in place of the argument CodeFile.
	Code     []byte
	Argv     []string
	CodeFile string // "{file}.mjs": what stands in Argv for the file, with the ending that it gets

	// Session runs Python code in the box's lasting interpreter, which keeps its variables and shows the value
	// of a last expression.
	Session bool
	// Keep leaves what the program has started running when it ends by itself: the box is a session's.
	Keep bool

	Stdin      []byte            // nil: closed, so that input() raises EOFError at once
	OpenStdin  bool              // more may come, until somebody says that it is the end
	Dir        string            // "" is the workspace; relative paths are below it
	Env        map[string]string // added to the box's own small environment
	PythonPath []string          // folders of installed packages, ahead of the image's own
	Timeout    time.Duration     // wall clock; 0 is none

	Output OutputLimits
	Stream bool // send output while it is produced
}

// OutputLimits bound what is kept of each of stdout and stderr. The run goes on beyond them.
type OutputLimits struct {
	Head  int64 // bytes kept from the beginning, for the record
	Tail  int64 // bytes kept from the end, for the record
	Spill int64 // bytes kept in the box, from the beginning, for the artifact
}

// Stream names one of a program's two outputs.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Output is what is known of one stream. When nothing was cut, Head is all of it and Tail is empty.
type Output struct {
	Head    []byte
	Tail    []byte
	Total   int64 // bytes that the program wrote
	Spilled int64 // bytes that can be read with ReadOutput
}

// Cut reports how many bytes lie between Head and Tail.
func (o Output) Cut() int64 { return o.Total - int64(len(o.Head)) - int64(len(o.Tail)) }

// Exit is how a program ended, as the agent saw it. All of it comes from inside the box: untrusted.
type Exit struct {
	Code      int    // exit status; 128+n when a signal ended it
	Signal    string // "SIGKILL"; "" when it exited by itself
	TimedOut  bool
	Cancelled bool
	OOMKilled bool
	Stdout    Output
	Stderr    Output
	Files     []FileInfo // changed regular files in the workspace, by path
	Displays  []Display  // what a session's code showed, in order; the last expression's value last
	StateLost bool       // the lasting interpreter has ended: its variables are gone
	Warnings  []string   // one sentence each, for the record
	Duration  time.Duration
}

// FileInfo is a file of the workspace.
type FileInfo struct {
	Path string // relative to the workspace, slashes; any bytes but NUL
	Size int64
}

// Status is how a run ended, in one word.
type Status string

// The statuses.
const (
	StatusOK        Status = "ok"
	StatusFailed    Status = "failed"
	StatusTimedOut  Status = "timed_out"
	StatusCancelled Status = "cancelled"
	StatusOOMKilled Status = "oom_killed"
	StatusRunning   Status = "running"
)

// Record is everything a run did. A program that fails has a Record; an error means that
// Boxwright could not run it.
type Record struct {
	RunID     string
	Status    Status
	ExitCode  int
	Signal    string
	TimedOut  bool
	OOMKilled bool
	Cancelled bool
	Stdout    Output
	Stderr    Output
	Durations map[Phase]time.Duration
	Total     time.Duration
	Files     []Artifact
	Warnings  []string
	Install   string // the last lines of the installer, when it ran
	// AutoInstalled are packages that the code lacked: they were installed, and it ran again from the start.
	AutoInstalled []string
	Hint          string // what to do about a program that failed, where that is known
	Displays      []Display
	Session       string // "" when the run had a box of its own
	Backend       string
	Image         Image
}

// StatusOf sums an exit up. What was done to the program outranks what it returned.
func StatusOf(e Exit) Status {
	switch {
	case e.Cancelled:
		return StatusCancelled
	case e.TimedOut:
		return StatusTimedOut
	case e.OOMKilled:
		return StatusOOMKilled
	case e.Code != 0 || e.Signal != "":
		return StatusFailed
	default:
		return StatusOK
	}
}

// Artifact is a file that a run left, kept by the artifact store.
type Artifact struct {
	Run      string // the run that made it
	Name     string // relative path as the program named it; valid UTF-8
	Size     int64
	MIMEType string
	SHA256   string // hex
	URI      string // boxwright://runs/RUN/NAME, for resources/read
	Location string // file path or URL for a person; "" when there is none
	Created  time.Time
	Preview  *Preview // a picture small enough to be shown in place; nil otherwise
}

// Preview is a small rendering of an image.
type Preview struct {
	MIMEType string
	Data     []byte
	Shrunk   bool // not the original bytes
}
