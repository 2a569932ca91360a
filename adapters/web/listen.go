package web

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Listen is where the server listens: at an address or, if Socket is set, at a unix socket.
type Listen struct {
	Address           string // HOST:PORT
	Socket            string // a path
	CertFile, KeyFile string // PEM files; "" is without TLS
}

// names are the hosts by which clients on this machine call the server.
func (l Listen) names() []string {
	loopback := []string{"localhost", "127.0.0.1", "::1"}
	host, _, err := net.SplitHostPort(l.Address)
	address := net.ParseIP(host)
	switch {
	case l.Socket != "" || err != nil || host == "localhost" || address != nil && address.IsLoopback():
		return append(loopback, canonical(host))
	case host == "" || address != nil && address.IsUnspecified():
		return loopback // whoever is not here needs one of Hosts
	}
	return []string{canonical(host)}
}

// Open listens. Without authentication it refuses what others than this machine's users can reach, as
// core.ErrInvalid; the socket is for its owner alone.
func (l Listen) Open(authenticated bool) (net.Listener, error) {
	if l.Socket != "" {
		return l.openSocket()
	}
	address, err := net.ResolveTCPAddr("tcp", l.Address)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "http.listen: %s is no address to listen at: %w", l.Address, err)
	}
	if !authenticated && !address.IP.IsLoopback() {
		return nil, core.Errorf(core.ErrInvalid, "the server does not listen at %s, as anybody who reaches it could run code here: it asks nobody for a key", l.Address).
			WithHint("set auth.mode to keys, listen at 127.0.0.1, or at a unix socket with http.unix_socket")
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, core.Errorf(core.ErrUnavailable, "http.listen: the server cannot listen at %s: %w", l.Address, err)
	}
	return listener, nil
}

// openSocket makes the socket in a folder that only the owner enters, and moves it to its place with the right
// mode, so that there is no moment in which others could connect.
func (l Listen) openSocket() (net.Listener, error) {
	if err := l.removeStale(); err != nil {
		return nil, err
	}
	failed := func(err error) (net.Listener, error) {
		return nil, core.Errorf(core.ErrUnavailable, "http.unix_socket: the server cannot listen at %s: %w", l.Socket, err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(l.Socket), ".")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // it is empty by then
	made := filepath.Join(folder, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return failed(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Link(made, l.Socket)); err != nil { // a link replaces nothing
		return failed(errors.Join(err, listener.Close()))
	}
	return &socket{UnixListener: listener, path: l.Socket}, nil
}

// removeStale removes a socket that a killed server left: one at which nobody listens.
func (l Listen) removeStale() error {
	info, err := os.Lstat(l.Socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return core.Errorf(core.ErrInvalid, "http.unix_socket: %s is there already, and is no socket", l.Socket)
	}
	connection, err := net.DialTimeout("unix", l.Socket, time.Second)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = connection.Close()
		}
		return core.Errorf(core.ErrUnavailable, "http.unix_socket: another server listens at %s", l.Socket)
	}
	return os.Remove(l.Socket)
}

// socket is removed with its listener.
type socket struct {
	*net.UnixListener
	path string
}

// Addr implements net.Listener.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close implements net.Listener.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if err == nil {
		err = os.Remove(s.path)
	}
	return err
}
