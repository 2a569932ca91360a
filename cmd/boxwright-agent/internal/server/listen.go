package server

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Address is the agent's socket. It is abstract: it needs no folder and cannot be removed or replaced.
const Address = "@boxwright-agent"

const (
	// greetTime bounds how long a peer may take to say who it is.
	greetTime = 2 * time.Second
	// greeters bounds how many may be doing so.
	greeters = 64
)

// guarded lets only one user in. Others are turned away without a word in any log, which they could fill.
//
// A peer says who it is in its first message, and the kernel vouches for that. What the kernel knows of a
// peer without being told, SO_PEERCRED, turns most others away at once; but gVisor's answer to it is the
// asker itself.
type guarded struct {
	*net.UnixListener
	uid   uint32
	admit chan net.Conn
	err   chan error
	busy  chan struct{}
}

// Listen opens the agent's socket for the processes of one user. first is a connection that is let in unasked;
// it may be nil.
func Listen(uid int, first net.Conn) (net.Listener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: Address, Net: "unix"})
	if err != nil {
		return nil, err
	}
	g := &guarded{
		UnixListener: listener,
		uid:          uint32(uid), //nolint:gosec // a user id
		admit:        make(chan net.Conn, 1),
		err:          make(chan error, 1),
		busy:         make(chan struct{}, greeters),
	}
	if first != nil {
		g.admit <- first
	}
	go g.listen()
	return g, nil
}

// Accept returns the next connection of that user.
func (g *guarded) Accept() (net.Conn, error) {
	select {
	case conn := <-g.admit:
		return conn, nil
	case err := <-g.err:
		return nil, err
	}
}

func (g *guarded) listen() {
	for {
		conn, err := g.AcceptUnix()
		if err != nil && !errors.Is(err, net.ErrClosed) {
			time.Sleep(time.Millisecond) // out of descriptors, for now
			continue
		}
		if err != nil {
			g.err <- err
			return
		}
		if uid, self, err := peer(conn); err != nil || uid != g.uid && !self {
			_ = conn.Close()
			continue
		}
		select {
		case g.busy <- struct{}{}:
			go g.greet(conn)
		default:
			_ = conn.Close()
		}
	}
}

// greet lets a peer in that proves to be the right one.
func (g *guarded) greet(conn *net.UnixConn) {
	uid, err := greeting(conn)
	<-g.busy
	if err != nil || uid != g.uid {
		_ = conn.Close()
		return
	}
	g.admit <- conn
}

// Greet says who the caller is; it must be the first that is sent on a connection.
func Greet(conn *net.UnixConn) error {
	me := unix.UnixCredentials(&unix.Ucred{
		Pid: int32(os.Getpid()),  //nolint:gosec // a process id
		Uid: uint32(os.Getuid()), //nolint:gosec // a user id
		Gid: uint32(os.Getgid()), //nolint:gosec // a group id
	})
	_, _, err := conn.WriteMsgUnix([]byte{0}, me, nil)
	return err
}

func greeting(conn *net.UnixConn) (uid uint32, err error) {
	if err := passCredentials(conn, 1); err != nil {
		return 0, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(greetTime)); err != nil {
		return 0, err
	}
	var hello [1]byte
	control := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	_, n, _, _, err := conn.ReadMsgUnix(hello[:], control)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return 0, errors.New("the peer did not say who it is")
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, err
	}
	return cred.Uid, errors.Join(passCredentials(conn, 0), conn.SetReadDeadline(time.Time{}))
}

func passCredentials(conn *net.UnixConn, on int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) { setErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, on) })
	return errors.Join(err, setErr)
}

// peer returns the user whom the kernel takes the peer for; self says that it takes it for this process,
// and so knows nothing.
func peer(conn *net.UnixConn) (uid uint32, self bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, false, err
	}
	if credErr != nil {
		return 0, false, credErr
	}
	return cred.Uid, int(cred.Pid) == os.Getpid(), nil
}
