package python

import (
	"crypto/rand"
	"embed"
	"encoding/json"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fault"
	"github.com/boxwright/boxwright/core"
)

// What the lasting interpreter does besides what all do.
//
//go:embed session.py shown.py definitions.py variables.py
var sessionFiles embed.FS

// sessionSource joins its instructions.
func sessionSource() (source []byte, err error) {
	for _, name := range []string{"session.py", "shown.py", "definitions.py", "variables.py"} {
		text, err := sessionFiles.ReadFile(name)
		if err != nil {
			return nil, core.Errorf(core.ErrInternal, "the agent is not whole: %w", err)
		}
		source = append(append(source, text...), '\n')
	}
	return source, nil
}

// describeTime bounds how long the lasting interpreter may take to describe its variables.
const describeTime = 6 * time.Second

// Lasting is an interpreter that runs one cell after the other and remembers what they have defined. It is
// in the hands of the code: what it says is checked, and one that does not keep to the protocol is ended.
type Lasting struct {
	process
	turn chan struct{} // holds a token while it neither runs a cell nor describes its variables

	gone   chan struct{} // closed when it has ended
	status syscall.WaitStatus
}

// Cell is one piece of code.
type Cell struct {
	Dir        string   `json:"dir"`         // "" leaves the working directory as it is
	PythonPath []string `json:"python_path"` // folders of packages
	Token      string   `json:"token"`       // set by Run
	Source     []byte   `json:"-"`
	Stdio      [3]int   `json:"-"` // descriptors; they stay the caller's
}

// Lasting makes one. p's source and descriptors are not looked at.
func (w *Warm) Lasting(p Program) (*Lasting, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	source, err := sessionSource()
	if err != nil {
		return nil, err
	}
	p.Source = source
	request, err := p.request()
	if err != nil {
		return nil, err
	}
	defer request.Close() //nolint:errcheck // memory
	ready, err := w.send("session", int(request.Fd()))
	if err != nil {
		return nil, err
	}
	l := &Lasting{process: ready.process, turn: make(chan struct{}, 1), gone: make(chan struct{})}
	l.turn <- struct{}{}
	go func() {
		l.status = <-l.died
		close(l.gone)
	}()
	return l, nil
}

// PID returns its number.
func (l *Lasting) PID() int { return l.pid }

// Gone is closed once it has ended.
func (l *Lasting) Gone() <-chan struct{} { return l.gone }

// Alive reports whether it has not ended yet.
func (l *Lasting) Alive() bool {
	select {
	case <-l.gone:
		return false
	default:
		return true
	}
}

// Interrupt has the cell write out what it has printed, and raises KeyboardInterrupt in it.
func (l *Lasting) Interrupt() {
	if !l.Alive() {
		return
	}
	Flush(l.pid)
	tell(l.pid, syscall.SIGINT)
	_ = syscall.Kill(l.pid, syscall.SIGCONT)
}

// End ends it.
func (l *Lasting) End() {
	if l.Alive() {
		_ = syscall.Kill(l.pid, syscall.SIGKILL)
	}
	_ = l.conn.Close()
}

// Run starts a cell, once the interpreter has described its variables if it does that. The cell's answer comes
// once, also if the interpreter ends.
func (l *Lasting) Run(c Cell) (<-chan Answer, error) {
	select {
	case <-l.turn:
	case <-time.After(describeTime):
		l.End()
		return nil, core.Errorf(core.ErrUnavailable, "the session's interpreter did not answer and was ended: its variables are gone").
			WithHint("run the code again")
	}
	c.Token = rand.Text()
	if c.PythonPath == nil {
		c.PythonPath = []string{}
	}
	request, err := c.request()
	if err == nil {
		err = l.ask("cell", c.Stdio[0], c.Stdio[1], c.Stdio[2], int(request.Fd()))
	}
	if err != nil {
		l.turn <- struct{}{}
		return nil, err
	}
	answers := make(chan Answer, 1)
	go func() {
		defer request.Close() //nolint:errcheck // memory
		answer := l.heed(func() Answer { return l.follow(c.Token, request) })
		l.turn <- struct{}{}
		answers <- answer
	}()
	return answers, nil
}

// heed hears an interpreter out, which may say anything. A mistake of the agent's in that ends the interpreter, and
// not the box.
func (l *Lasting) heed(follow func() Answer) (answer Answer) {
	err := fault.Contain(func() error {
		answer = follow()
		return nil
	})
	if err != nil {
		l.End()
		<-l.gone
		answer = Answer{Lost: true, Status: l.status}
	}
	return answer
}

// Variables describes what the interpreter remembers. One that does not answer soon may be busy in a thread of the
// session's own: it keeps its turn until it answers.
func (l *Lasting) Variables() ([]core.Variable, error) {
	select {
	case <-l.turn:
	default:
		return nil, core.Errorf(core.ErrUnavailable, "the session is busy: its interpreter runs code").
			WithHint("ask again when the code has ended")
	}
	answers := make(chan described, 1)
	go func() {
		defer func() { l.turn <- struct{}{} }()
		var answer described
		if err := fault.Contain(func() error { answer = l.describe(); return nil }); err != nil {
			answer = described{err: err}
		}
		answers <- answer
	}()
	select {
	case answer := <-answers:
		return answer.variables, answer.err
	case <-time.After(describeTime):
		return nil, core.Errorf(core.ErrUnavailable, "the session's interpreter does not tell its variables: something that it runs does not let it").
			WithHint("ask again later")
	}
}

// described is what the interpreter says of its variables.
type described struct {
	variables []core.Variable
	err       error
}

func (l *Lasting) describe() described {
	answer, err := memory(nil)
	if err != nil {
		return described{err: err}
	}
	defer answer.Close() //nolint:errcheck // memory
	if err := l.ask("variables", int(answer.Fd())); err != nil {
		return described{err: err}
	}
	if text, err := l.receive(); err != nil || text != "variables - 0" {
		l.End()
		return described{err: core.Errorf(core.ErrUnavailable, "the session's interpreter is gone").WithHint("run the code again")}
	}
	variables, err := parseVariables(answer)
	return described{variables, err}
}

// ask sends a request with descriptors.
func (l *Lasting) ask(what string, descriptors ...int) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(answerTime))
	if _, _, err := l.conn.WriteMsgUnix([]byte(what), unix.UnixRights(descriptors...), nil); err != nil {
		l.End()
		return core.Errorf(core.ErrUnavailable, "the session's interpreter is gone: %w", err).WithHint("run the code again")
	}
	return nil
}

// follow waits for the end of a cell. An interpreter that has closed its socket will end, at the latest
// when the run's time is up; one that says what it should not is ended.
func (l *Lasting) follow(token string, request *os.File) Answer {
	if text, err := l.receive(); err == nil {
		if answer, ok := parseAnswer(text, token, request); ok {
			return answer
		}
		l.End()
	}
	<-l.gone
	return Answer{Lost: true, Status: l.status}
}

// request is a file with a line of JSON and the source. A file of memory has no name that could be opened.
func (c Cell) request() (*os.File, error) { return written(c, c.Source) }

func written(head any, source []byte) (*os.File, error) {
	header, err := json.Marshal(head)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the run cannot be described: %w", err)
	}
	return memory(append(append(header, '\n'), source...))
}

// Threads returns how many it has.
func (l *Lasting) Threads() int {
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(l.pid) + "/task")
	return len(threads)
}
