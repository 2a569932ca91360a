package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// Address is the agent's socket. It is abstract: it needs no folder and cannot be removed or replaced.
const Address = "@boxwright-agent"

// guarded lets only one user in. Others are turned away before a byte of theirs is read, and without a
// word in any log, which they could fill.
type guarded struct {
	*net.UnixListener
	uid uint32
}

// Listen opens the agent's socket for the processes of one user.
func Listen(uid int) (net.Listener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: Address, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return guarded{UnixListener: listener, uid: uint32(uid)}, nil //nolint:gosec // a user id
}

// Accept returns the next connection of that user.
func (g guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(conn); err == nil && uid == g.uid {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func peer(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return cred.Uid, nil
}
