package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// view is what a box looks like from inside. Its form is executiontest.Inside.
type view struct {
	PID         int             `json:"pid"` // the agent's
	UID         int             `json:"uid"`
	GID         int             `json:"gid"`
	Caps        string          `json:"caps"` // the agent's effective capabilities, hexadecimal
	NoNewPrivs  bool            `json:"no_new_privs"`
	RootMounted string          `json:"root"`
	Interfaces  []string        `json:"interfaces"`
	Env         []string        `json:"env"`
	Writable    map[string]bool `json:"writable"`
	Seen        map[string]bool `json:"seen"`
}

// inspect tells on out what a program in this box can see and do. "boxwright plugin verify" has the
// agent run it, as any other program; its parent is the agent. It leaves a file in each folder that
// it can write to.
func inspect(folders []string, out io.Writer) error {
	v := view{
		PID:         os.Getppid(),
		UID:         os.Getuid(),
		GID:         os.Getgid(),
		Caps:        status(os.Getppid(), "CapEff"),
		NoNewPrivs:  status(os.Getpid(), "NoNewPrivs") == "1",
		RootMounted: rootMounted(),
		Interfaces:  interfaces(),
		Env:         os.Environ(),
		Writable:    map[string]bool{},
		Seen:        map[string]bool{},
	}
	for _, folder := range folders {
		v.Seen[folder], v.Writable[folder] = probe(folder)
	}
	return json.NewEncoder(out).Encode(v)
}

// probe leaves a file in the folder, if it can.
func probe(folder string) (seen, writable bool) {
	mark := filepath.Join(folder, ".boxwright-probe")
	_, err := os.Stat(mark) //nolint:gosec // whoever asks may look anywhere in the box
	seen = err == nil
	file, err := os.OpenFile(mark, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // another box's user must be able to see it
	if err != nil {
		return seen, false
	}
	return seen, file.Close() == nil
}

func status(pid int, key string) string {
	raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.SplitSeq(string(raw), "\n") {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// rootMounted is "ro" or "rw".
func rootMounted() string {
	raw, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.SplitSeq(string(raw), "\n") {
		if f := strings.Fields(line); len(f) > 5 && f[4] == "/" {
			mode, _, _ := strings.Cut(f[5], ",")
			return mode
		}
	}
	return ""
}

// interfaces names those that are up.
func interfaces() []string {
	var up []string
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 {
			up = append(up, i.Name)
		}
	}
	return up
}
