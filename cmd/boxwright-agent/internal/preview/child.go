package preview

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fence"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
	"github.com/boxwright/boxwright/core"
)

const (
	// MaxLimit is the most that a preview may have, so that it fits one message.
	MaxLimit = 3 << 20
	patience = 15 * time.Second
	attempts = 3 // the end of a run kills everything in the box, a preview too
)

// answer is what the child says: a line of JSON, and the picture if there is no error.
type answer struct {
	MIMEType string    `json:"mime_type,omitempty"`
	Shrunk   bool      `json:"shrunk,omitempty"`
	Kind     core.Kind `json:"kind,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Main is the child: it reads a picture from file and writes its preview to out.
func Main(file io.ReadSeeker, limit int64, out io.Writer) error {
	// The code may not look into this process.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	result, err := Render(file, limit)
	head := answer{MIMEType: result.MIMEType, Shrunk: result.Shrunk}
	if err != nil {
		head = answer{Kind: core.KindOf(err), Error: core.MessageOf(err)}
	}
	if err := json.NewEncoder(out).Encode(head); err != nil {
		return err
	}
	_, err = out.Write(result.Data)
	return err
}

// Renderer starts children.
type Renderer struct {
	Program string // the agent's own executable
	Reaper  *reaper.Reaper
	Expose  func(pid int)
}

// Render has a child make the preview. open gives the picture anew for each attempt.
func (r Renderer) Render(ctx context.Context, open func() (*os.File, error), limit int64) (core.Preview, error) {
	if limit <= 0 {
		return core.Preview{}, core.Errorf(core.ErrInvalid, "the limit of a preview must be positive")
	}
	limit = min(limit, MaxLimit)
	for attempt := 1; ; attempt++ {
		result, err := r.once(ctx, open, limit)
		if err == nil || attempt == attempts || core.KindOf(err) != core.ErrUnavailable {
			return result, err
		}
	}
}

func (r Renderer) once(ctx context.Context, open func() (*os.File, error), limit int64) (core.Preview, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	file, err := open()
	if err != nil {
		return core.Preview{}, err
	}
	defer file.Close() //nolint:errcheck // only read
	out, pid, status, err := r.start(file, limit)
	if err != nil {
		return core.Preview{}, core.Errorf(core.ErrExhausted, "no process could be started for the preview: %w", err)
	}
	defer out.Close() //nolint:errcheck // only read
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			_ = out.Close() // the child's next write ends it, unless the signal does
			_ = syscall.Kill(pid, syscall.SIGKILL)
		case <-ended:
		}
	}()
	data, _ := io.ReadAll(io.LimitReader(out, limit+4096))
	select {
	case s := <-status:
		return r.judge(s, data, limit)
	case <-ctx.Done():
		return core.Preview{}, core.Errorf(core.ErrUnsupported, "the picture took too long to be made smaller")
	}
}

func (r Renderer) judge(status syscall.WaitStatus, data []byte, limit int64) (core.Preview, error) {
	if status.Signaled() {
		return core.Preview{}, core.Errorf(core.ErrUnavailable, "the preview was interrupted").
			WithHint("the picture may need more memory than the box has")
	}
	return parse(data, limit)
}

// parse reads what the child has said. The child may be in the hands of the picture.
func parse(data []byte, limit int64) (core.Preview, error) {
	broken := core.Errorf(core.ErrUnsupported, "the picture could not be made smaller")
	for i, b := range data {
		if b != '\n' {
			continue
		}
		var head answer
		if err := json.Unmarshal(data[:i], &head); err != nil {
			return core.Preview{}, broken
		}
		picture := data[i+1:]
		switch {
		case head.Error != "":
			return core.Preview{}, &core.Error{Kind: head.Kind, Message: head.Error}
		case int64(len(picture)) > limit || len(picture) == 0:
			return core.Preview{}, broken
		}
		return core.Preview{MIMEType: head.MIMEType, Data: picture, Shrunk: head.Shrunk}, nil
	}
	return core.Preview{}, broken
}

func (r Renderer) start(file *os.File, limit int64) (*os.File, int, <-chan syscall.WaitStatus, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, nil, err
	}
	defer unix.Close(ends[1]) //nolint:errcheck // the child has a copy
	err := unix.SetNonblock(ends[0], true)
	out := os.NewFile(uintptr(ends[0]), "preview")
	null, nullErr := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err = errors.Join(err, nullErr); err != nil {
		_ = out.Close()
		return nil, 0, nil, err
	}
	defer null.Close() //nolint:errcheck // the child has a copy
	mark := r.Reaper.Mark()
	argv := []string{r.Program, "preview", strconv.FormatInt(limit, 10)}
	pid, err := fence.ForkExecExposed(r.Program, argv, &syscall.ProcAttr{
		Dir:   "/",
		Files: []uintptr{file.Fd(), uintptr(ends[1]), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = out.Close()
		return nil, 0, nil, err
	}
	r.Expose(pid)
	return out, pid, r.Reaper.Wait(pid, mark), nil
}
