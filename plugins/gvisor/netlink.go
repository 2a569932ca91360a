package gvisor

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// addUnreachable adds a route that refuses, as "ip route add unreachable" does.
func addUnreachable(to netip.Prefix) error {
	header := unix.RtMsg{
		Family: unix.AF_INET, Dst_len: bits(to), Table: unix.RT_TABLE_MAIN,
		Protocol: unix.RTPROT_BOOT, Scope: unix.RT_SCOPE_UNIVERSE, Type: unix.RTN_UNREACHABLE,
	}
	return change(unix.RTM_NEWROUTE, header, attribute(unix.RTA_DST, to.Addr().AsSlice()))
}

// rule says which table holds the way to a network; the first that fits is followed, the lowest
// priority first.
type rule struct {
	to       netip.Prefix
	priority uint32
	protocol uint8  // 0 is any
	port     uint16 // 0 is any
	table    uint8  // 0 refuses
}

// addRule adds it, as "ip rule add" does. A kernel before 4.17 ignores protocol and port.
func addRule(r rule) error {
	// The kernel's header of a rule has a route's form: Type is what it does.
	header := unix.RtMsg{Family: unix.AF_INET, Dst_len: bits(r.to), Table: r.table, Type: unix.FR_ACT_TO_TBL}
	if r.table == 0 {
		header.Type = unix.FR_ACT_UNREACHABLE
	}
	attributes := [][]byte{
		attribute(unix.FRA_DST, r.to.Addr().AsSlice()),
		attribute(unix.FRA_PRIORITY, binary.NativeEndian.AppendUint32(nil, r.priority)),
	}
	if r.port != 0 {
		ports := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, r.port), r.port) // from, to
		attributes = append(attributes, attribute(unix.FRA_IP_PROTO, []byte{r.protocol}), attribute(unix.FRA_DPORT_RANGE, ports))
	}
	return change(unix.RTM_NEWRULE, header, attributes...)
}

func bits(p netip.Prefix) uint8 { return uint8(p.Bits()) } //nolint:gosec // at most 32

// attribute is one of a request, padded to four bytes.
func attribute(kind uint16, value []byte) []byte {
	raw := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value))) //nolint:gosec // a few bytes
	raw = append(binary.NativeEndian.AppendUint16(raw, kind), value...)
	return append(raw, make([]byte, -len(raw)&3)...)
}

// change sends one request to make a route or a rule, and returns the kernel's answer.
func change(kind uint16, header unix.RtMsg, attributes ...[]byte) error {
	body, err := binary.Append(nil, binary.NativeEndian, header)
	if err != nil {
		return err
	}
	for _, attribute := range attributes {
		body = append(body, attribute...)
	}
	message, err := binary.Append(nil, binary.NativeEndian, unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind, //nolint:gosec // small
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_CREATE | unix.NLM_F_EXCL | unix.NLM_F_ACK,
	})
	if err != nil {
		return err
	}
	return ask(append(message, body...))
}

// ask sends a request to the kernel and returns the error that it answers.
func ask(message []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // it is not used any more
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return errors.Join(err, errors.New("the kernel did not answer about a route"))
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 { //nolint:gosec // the kernel's own negative number
		return unix.Errno(-code) //nolint:gosec // an error's number
	}
	return nil
}
