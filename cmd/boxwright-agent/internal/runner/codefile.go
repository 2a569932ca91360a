package runner

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// codeMark is what an argument that stands for the code's file begins with; its ending follows.
const codeMark = "{file}"

func checkCodeFile(spec core.RunSpec) error {
	ending, ok := strings.CutPrefix(spec.CodeFile, codeMark)
	switch {
	case len(spec.Argv) == 0 || spec.Code == nil:
		return core.Errorf(core.ErrInvalid, "only a run with code and a command has a file for the code")
	case !ok || !regexp.MustCompile(`^(\.[A-Za-z0-9]{1,16}){0,3}$`).MatchString(ending):
		return core.Errorf(core.ErrInvalid, "%q cannot stand for the code's file", spec.CodeFile).
			WithHint(`write %q and the file's ending, such as "{file}.mjs"`, codeMark)
	case !slices.Contains(spec.Argv, spec.CodeFile):
		return core.Errorf(core.ErrInvalid, "no argument of the command is %q, which stands for the code's file", spec.CodeFile)
	}
	return nil
}

// codeFile is the file that a program finds its code in. It is removed wherever its folder is by then.
type codeFile struct {
	dir  *os.File
	name string
}

// writeCode puts a run's code, if it is to lie in a file, into the folder under a name that nobody can have
// taken, and returns the command with that in its place.
func writeCode(spec core.RunSpec, dir string) (*codeFile, []string, error) {
	if spec.CodeFile == "" {
		return nil, spec.Argv, nil
	}
	folder, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) //nolint:gosec // inside the box, where the run is to be
	if err != nil {
		return nil, nil, core.Errorf(core.ErrInvalid, "the working directory %q cannot be read", dir)
	}
	code := &codeFile{dir: folder, name: ".boxwright-" + rand.Text() + strings.TrimPrefix(spec.CodeFile, codeMark)}
	if err := code.write(spec.Code); err != nil {
		code.remove()
		return nil, nil, codeError(dir, err)
	}
	argv := slices.Clone(spec.Argv)
	for i, argument := range argv {
		if argument == spec.CodeFile {
			argv[i] = filepath.Join(dir, code.name)
		}
	}
	return code, argv, nil
}

func (c *codeFile) write(data []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(c.dir.Fd()), c.name, flags, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), c.name)
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// remove does nothing if there is no file.
func (c *codeFile) remove() {
	if c == nil {
		return
	}
	_ = unix.Unlinkat(int(c.dir.Fd()), c.name, 0)
	_ = c.dir.Close()
}

func codeError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOMEM) {
		return core.Errorf(core.ErrExhausted, "the box's disk is full: there is no room for the code").
			WithHint("remove files or ask for a larger disk")
	}
	return core.Errorf(core.ErrInvalid, "no file can be written in the working directory %q", dir)
}
