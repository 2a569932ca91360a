package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestTheServersRoutesAreGuarded: each route of MCP refuses what comes by another name, from a page of another site, as
// a form or too long; what is open to everybody refuses the first two. Health is told by any name.
func TestTheServersRoutesAreGuarded(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	address := launch(t, setup{transport: overStreamable, config: "http: {body_limit: 1KiB}\n"}, nil).address(t)
	for _, route := range []string{"POST /mcp", "GET /mcp", "DELETE /mcp", "GET /sse", "POST /messages/", "GET /files/x", "GET /nothing"} {
		method, path, _ := strings.Cut(route, " ")
		for header, status := range map[string]int{
			"Host: evil.example":           http.StatusForbidden,
			"Origin: https://evil.example": http.StatusForbidden,
			"Content-Type: text/plain":     http.StatusUnsupportedMediaType,
			"Content-Length: 1025":         http.StatusRequestEntityTooLarge,
		} {
			if method != "POST" && status != http.StatusForbidden {
				continue
			}
			if got := sendRaw(t, address, method, path, header); got != status {
				t.Errorf("%s with %s: %d, want %d", route, header, got, status)
			}
		}
	}
}

// sendRaw sends a request with an own header in place of a usual one, and returns the status of the answer.
func sendRaw(t *testing.T, address, method, path, header string) int {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	headers := map[string]string{"Host": address, "Content-Type": "application/json", "Content-Length": "0"}
	name, value, _ := strings.Cut(header, ": ")
	headers[name] = value
	request := method + " " + path + " HTTP/1.1\r\n"
	for name, value := range headers {
		request += name + ": " + value + "\r\n"
	}
	if _, err := io.WriteString(connection, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
