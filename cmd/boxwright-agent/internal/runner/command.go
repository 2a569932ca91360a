package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fence"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
	"github.com/boxwright/boxwright/core"
)

// command starts a program without a shell.
func command(r *reaper.Reaper, argv []string, dir string, env map[string]string, fds [3]int) (python.Process, error) {
	path, err := lookUp(argv[0], dir, env["PATH"])
	if err != nil {
		return python.Process{}, err
	}
	mark := r.Mark()
	pid, err := fence.ForkExecExposed(path, argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   Pairs(env),
		Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return python.Process{}, startError(argv[0], err)
	}
	Expose(pid)
	return python.Process{PID: pid, Status: r.Wait(pid, mark)}, nil
}

// Expose lets the kernel take a process first when memory runs out. It may have ended already.
func Expose(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0o600)
}

func lookUp(name, dir, folders string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, usable(name)
	}
	var refused error
	for _, folder := range filepath.SplitList(folders) {
		if !filepath.IsAbs(folder) {
			continue
		}
		path := filepath.Join(folder, name)
		err := usable(path)
		if err == nil {
			return path, nil
		}
		if core.KindOf(err) != core.ErrNotFound {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", missing(name)
}

func missing(name string) error {
	return core.Errorf(core.ErrNotFound, "the image has no program %q", name).
		WithHint("use an image that has it, or another command")
}

func usable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return missing(path)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return core.Errorf(core.ErrUnsupported, "%q is not an executable program", path)
	}
	return nil
}

func startError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return core.Errorf(core.ErrNotFound, "the program %q, or the interpreter that it names, is not in the image", name)
	case errors.Is(err, syscall.ENOEXEC):
		return core.Errorf(core.ErrUnsupported, "%q is not a program that this machine can run", name).
			WithHint(`a script needs a first line such as "#!/bin/sh"`)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return core.Errorf(core.ErrUnsupported, "%q may not be executed where it lies", name)
	case errors.Is(err, syscall.E2BIG):
		return core.Errorf(core.ErrInvalid, "arguments and environment are too large").
			WithHint("pass large data on stdin or in a file")
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return core.Errorf(core.ErrExhausted, "no process could be started for %q", name).
			WithHint("the box's limit of processes or memory is used up")
	}
	return core.Errorf(core.ErrInternal, "%q could not be started: %w", name, err)
}
