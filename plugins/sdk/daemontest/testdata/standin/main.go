// Command standin stands in for the agent in the tests of backends on daemons. It answers the
// lines "ping", "inside FOLDER…" and "stop" as the suite's fake does, and "mounts" and
// "read FILE".
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const address = "@boxwright-standin"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "dial" {
		dial()
		return
	}
	listener, err := net.Listen("unix", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serveFirst(os.Args)
	for {
		conn, err := listener.Accept()
		if err != nil {
			os.Exit(1)
		}
		go serve(conn)
	}
}

// serveFirst serves the stream that the box was started with, if it was.
func serveFirst(args []string) {
	for i, arg := range args {
		if arg == "--stream-stdio" {
			go serve(stdio{})
		}
		if arg == "--stream-fd" {
			fd, _ := strconv.Atoi(args[i+1])
			conn, err := net.FileConn(os.NewFile(uintptr(fd), "stream"))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			go serve(conn)
		}
	}
}

// stdio is the stream that standard input and output are.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

func dial() {
	for range 1000 {
		conn, err := net.Dial("unix", address)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		go func() {
			io.Copy(conn, os.Stdin)
			conn.Close()
		}()
		io.Copy(os.Stdout, conn)
		return
	}
	fmt.Fprintln(os.Stderr, "the stand-in does not answer")
	os.Exit(1)
}

func serve(conn io.ReadWriteCloser) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "ping":
			fmt.Fprintln(conn, "pong")
		case "inside":
			json.NewEncoder(conn).Encode(inside(strings.Fields(rest)))
		case "mounts":
			json.NewEncoder(conn).Encode(mounts())
		case "read":
			content, _ := os.ReadFile(rest)
			json.NewEncoder(conn).Encode(string(content))
		case "stop":
			os.Exit(0)
		}
	}
}

func inside(folders []string) map[string]any {
	writable, seen := map[string]bool{}, map[string]bool{}
	for _, folder := range folders {
		probe := filepath.Join(folder, ".probe")
		_, err := os.Stat(probe)
		seen[folder] = err == nil
		file, err := os.OpenFile(probe, os.O_CREATE|os.O_WRONLY, 0o644)
		writable[folder] = err == nil
		if err == nil {
			file.Close()
		}
	}
	var up []string
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			up = append(up, i.Name)
		}
	}
	return map[string]any{
		"pid": os.Getpid(), "uid": os.Getuid(), "gid": os.Getgid(),
		"caps": status("CapEff"), "no_new_privs": status("NoNewPrivs") == "1",
		"root": root(), "interfaces": up, "env": os.Environ(), "writable": writable, "seen": seen,
	}
}

func status(key string) string {
	raw, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(raw), "\n") {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// mounts is the file system's type by folder.
func mounts() map[string]string {
	systems := map[string]string{}
	raw, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(raw), "\n") {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); len(f) > 4 {
			kind, _, _ := strings.Cut(after, " ")
			systems[f[4]] = kind
		}
	}
	return systems
}

func root() string {
	raw, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(raw), "\n") {
		if f := strings.Fields(line); len(f) > 5 && f[4] == "/" {
			mode, _, _ := strings.Cut(f[5], ",")
			return mode
		}
	}
	return ""
}
