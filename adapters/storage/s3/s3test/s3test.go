// Package s3test runs a real S3 server for tests: BOXWRIGHT_TEST_S3 names versitygw's executable.
package s3test

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// What the server has from the start.
const (
	AccessKey = "test-key"
	SecretKey = "a-secret-of-the-test"
	Bucket    = "files"
)

// Server is a server over a folder on loopback, that can go away and come back.
type Server struct {
	Endpoint string

	address string
	dir     string
	command *exec.Cmd
}

// Serve starts a server that ends with the test. Without an executable the test is skipped, or fails if
// BOXWRIGHT_REQUIRE has s3.
func Serve(t *testing.T) *Server {
	t.Helper()
	if os.Getenv("BOXWRIGHT_TEST_S3") == "" {
		if slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), "s3") {
			t.Fatal("BOXWRIGHT_TEST_S3 names no server")
		}
		t.Skip("BOXWRIGHT_TEST_S3 names no server")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{address: listener.Addr().String(), dir: t.TempDir()}
	s.Endpoint = "http://" + s.address
	_ = listener.Close()
	s.Start(t)
	t.Cleanup(s.Stop)
	client, err := minio.New(s.address, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, "")})
	if err == nil {
		err = client.MakeBucket(t.Context(), Bucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Start starts the server, again after Stop.
func (s *Server) Start(t *testing.T) {
	t.Helper()
	s.command = exec.Command(os.Getenv("BOXWRIGHT_TEST_S3"), "--port", s.address, "posix", s.dir) //nolint:gosec,noctx // the tests' own; it ends with Stop
	s.command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.address) //nolint:noctx // loopback
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Stop kills the server. What it has kept stays.
func (s *Server) Stop() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}
