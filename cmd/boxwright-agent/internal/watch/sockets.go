package watch

import (
	"encoding/binary"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// usualSocket is what a socket can hold, in both directions, where the kernel does not tell what it does hold.
const usualSocket = 2 * 208 << 10

// socketBytes is what the box's sockets hold: the kernel's own figures, which know of sockets that are no
// process's at the moment too, and for those of the open ones that it has no figure for what they could.
func socketBytes(open map[uint64]bool) int64 {
	t := socketTable{known: map[uint64]bool{}}
	t.ask()
	sum := t.bytes()
	for number := range open {
		if !t.known[number] {
			sum += usualSocket
		}
	}
	return sum
}

// socketTable is what the kernel tells about the sockets of a network namespace.
type socketTable struct {
	known map[uint64]bool // inodes
	sum   int64
	queue []received
	most  int64 // that one socket can have sent and nobody has read
}

// received are messages in a socket of the box's own. They count with their sender, as long as there is one.
type received struct {
	peer     uint64
	datagram bool
}

// diagnosis is a question about the sockets of a family, and where its answers have what is asked for.
type diagnosis struct {
	request       []byte
	inode, header int    // where the inode is, and how long what is before the attributes
	memory        uint16 // the attribute that has it
}

func diagnoses() []diagnosis {
	const (
		showPeer, showQueue, showMemory = 4, 16, 32
		allProtocols                    = 255
		allStates                       = 0xff
		inetMemory                      = 7
	)
	local := make([]byte, 24)
	local[0] = unix.AF_UNIX
	copy(local[4:], []byte{allStates, allStates, allStates, allStates})
	local[12] = showPeer | showQueue | showMemory
	netlink := make([]byte, 20)
	netlink[0], netlink[1], netlink[8] = unix.AF_NETLINK, allProtocols, 1
	all := []diagnosis{{local, 4, 16, localMemory}, {netlink, 16, 28, 0}}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			request := make([]byte, 56)
			copy(request, []byte{family, protocol, 1 << (inetMemory - 1), 0, allStates, allStates, allStates, allStates})
			all = append(all, diagnosis{request, 68, 72, inetMemory})
		}
	}
	return all
}

// Attributes of local sockets.
const (
	localPeer   = 2
	localQueue  = 4
	localMemory = 5
)

// ask leaves out what this kernel does not tell.
func (t *socketTable) ask() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return
	}
	defer unix.Close(fd)                                                                     //nolint:errcheck // only read
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}) // the kernel answers at once
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<30)                       // as much as it may be
	most, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	t.most = max(int64(most), usualSocket)
	for _, d := range diagnoses() {
		if dump(fd, d.request, func(answer []byte) { t.add(d, answer) }) != nil {
			return // the rest of its answers would be taken for the next one's
		}
	}
}

// dump asks one question.
func dump(fd int, request []byte, each func(answer []byte)) error {
	const sockDiagByFamily, headerSize = 20, 16
	message := binary.NativeEndian.AppendUint32(nil, uint32(headerSize+len(request))) //nolint:gosec // short
	message = binary.NativeEndian.AppendUint16(message, sockDiagByFamily)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	message = append(append(message, make([]byte, 8)...), request...)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return err
		}
		answers, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return err
		}
		for _, answer := range answers {
			if answer.Header.Type == unix.NLMSG_DONE || answer.Header.Type == unix.NLMSG_ERROR {
				return nil // an error is that this family is not known
			}
			each(answer.Data)
		}
	}
}

func (t *socketTable) add(d diagnosis, answer []byte) {
	if len(answer) < d.header {
		return
	}
	t.known[uint64(binary.NativeEndian.Uint32(answer[d.inode:]))] = true
	local := answer[0] == unix.AF_UNIX
	r := received{datagram: local && answer[1] == unix.SOCK_DGRAM}
	waiting := r.datagram // of whose queue only the first is told
	for kind, words := range attributes(answer[d.header:]) {
		switch {
		case kind == d.memory:
			t.sum += memory(words)
		case local && kind == localPeer:
			r.peer = uint64(words[0])
		case local && kind == localQueue:
			waiting = waiting || words[0] > 0
		}
	}
	if local && waiting {
		t.queue = append(t.queue, r)
	}
}

// bytes counts messages whose sender is gone, with which their size went, as the most that they can be. A
// socket for datagrams can have changed its peer.
func (t *socketTable) bytes() int64 {
	sum := t.sum
	for _, r := range t.queue {
		if r.datagram || !t.known[r.peer] || r.peer == 0 {
			sum += t.most
		}
	}
	return sum
}

// memory adds up a socket's figures. What has been sent and not yet been taken is in two of them.
func memory(words []uint32) int64 {
	const received, allocated, queued, backlog = 0, 2, 5, 7
	words = slices.Concat(words, make([]uint32, backlog+1)) // older kernels tell less
	return int64(words[received]) + int64(max(words[allocated], words[queued])) + int64(words[backlog])
}

// attributes are the numbers of each attribute of an answer. Each has one at least.
func attributes(text []byte) map[uint16][]uint32 {
	const header, word = 4, 4
	all := map[uint16][]uint32{}
	for len(text) >= header {
		size := int(binary.NativeEndian.Uint16(text))
		if size < header || size > len(text) {
			break
		}
		var words []uint32
		for at := header; at+word <= size; at += word {
			words = append(words, binary.NativeEndian.Uint32(text[at:]))
		}
		if len(words) > 0 {
			all[binary.NativeEndian.Uint16(text[2:])] = words
		}
		text = text[min((size+word-1)/word*word, len(text)):]
	}
	return all
}
