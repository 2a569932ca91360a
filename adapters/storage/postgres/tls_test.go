package postgres_test

import (
	"net"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/postgres"
	"github.com/boxwright/boxwright/core"
)

// TestNoTLS: a server without TLS is refused where the address asks for it, before a password is sent.
func TestNoTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heard := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n, _ := conn.Read(make([]byte, 8)) // the question for TLS
		_, _ = conn.Write([]byte("N"))
		more, _ := conn.Read(make([]byte, 1))
		heard <- n + more
	}()
	_, err = postgres.Open("postgres://ann:secret@"+listener.Addr().String()+"/x?sslmode=require", postgres.Options{})
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "refused TLS") || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("Open returned %v", err)
	}
	if n := <-heard; n != 8 {
		t.Errorf("the server heard %d bytes, not only the question", n)
	}
}
