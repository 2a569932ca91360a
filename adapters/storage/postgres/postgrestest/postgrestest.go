// Package postgrestest runs a real PostgreSQL server for tests: BOXWRIGHT_TEST_POSTGRES names the folder of its
// programs.
package postgrestest

import (
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Password is the one of the server's user; nothing may ever show it.
const Password = "a/secret:of@the test"

// Server is a server with a folder of its own, on a socket in it, that can go away and come back.
type Server struct {
	// URL leads to its database, as its superuser.
	URL string

	dir     string
	owner   *syscall.Credential
	command *exec.Cmd
	keeper  io.WriteCloser
}

// Serve starts a server that ends with the test. Without its programs the test is skipped, or fails if
// BOXWRIGHT_REQUIRE has postgres.
func Serve(t *testing.T) *Server {
	t.Helper()
	if os.Getenv("BOXWRIGHT_TEST_POSTGRES") == "" {
		if slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), "postgres") {
			t.Fatal("BOXWRIGHT_TEST_POSTGRES names no folder")
		}
		t.Skip("BOXWRIGHT_TEST_POSTGRES names no folder")
	}
	s := &Server{owner: ownerOf(t)}
	s.makeFolder(t)
	password := filepath.Join(s.dir, "password")
	s.write(t, password, Password)
	out, err := s.as("initdb", "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--username=boxwright",
		"--pwfile="+password, s.data()).CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.URL = (&url.URL{Scheme: "postgres", User: url.UserPassword("boxwright", Password), Path: "/postgres", RawQuery: "host=" + url.QueryEscape(s.dir)}).String()
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// ownerOf is whom the server runs as: it refuses to be root.
func ownerOf(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatal(uidErr, gidErr)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// makeFolder makes one that the server's user can reach, whose path is short enough for a socket.
func (s *Server) makeFolder(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "boxwright-postgres-") //nolint:usetesting // only we can enter the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.dir = dir
	s.give(t, dir)
}

func (s *Server) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.give(t, path)
}

func (s *Server) give(t *testing.T, path string) {
	t.Helper()
	if s.owner == nil {
		return
	}
	if err := os.Chown(path, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// as is a program of the server's, by its user.
func (s *Server) as(program string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(os.Getenv("BOXWRIGHT_TEST_POSTGRES"), program), args...) //nolint:gosec,noctx // the tests' own; it ends with Stop
	command.Dir = s.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return command
}

// keep runs a program until its input has a line with a signal, or ends, as it does with the test's process.
const keep = `"$0" "$@" </dev/null & read -r signal; kill "-${signal:-INT}" $!; wait`

// Start starts the server, again after Stop, and waits until it answers.
func (s *Server) Start(t *testing.T) {
	t.Helper()
	server := s.as("postgres", "-D", s.data(), "-k", s.dir, "-F", "-c", "listen_addresses=")
	s.command = exec.Command("sh", append([]string{"-c", keep}, server.Args...)...) //nolint:gosec,noctx // as above
	s.command.Dir, s.command.SysProcAttr = server.Dir, server.SysProcAttr
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err == nil {
		defer func() { _ = log.Close() }()
		s.command.Stderr = log
		s.keeper, err = s.command.StdinPipe()
	}
	if err == nil {
		err = s.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.awaitAnswer(t)
}

func (s *Server) awaitAnswer(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), s.URL)
		if err == nil {
			_ = conn.Close(t.Context())
			return
		}
		if time.Now().After(deadline) {
			told, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Fatalf("%v\n%s", err, told)
		}
	}
}

// Stop ends the server: those who are connected are told. What it has kept stays.
func (s *Server) Stop() { s.end("INT") }

// Crash ends it at once, as a loss of power does: transactions that have not ended are undone when it starts again.
func (s *Server) Crash() { s.end("QUIT") }

func (s *Server) end(signal string) {
	if s.command == nil {
		return
	}
	_, _ = io.WriteString(s.keeper, signal+"\n")
	_ = s.command.Wait()
	s.command = nil
}

// Dir is where the server's socket is.
func (s *Server) Dir() string { return s.dir }
