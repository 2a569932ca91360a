package gvisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Stage runs if this process was started as the stage, and reports whether it was. A main calls
// it before anything else.
func Stage() (was bool, err error) {
	if len(os.Args) < 2 || os.Args[0] != stageName {
		return false, nil
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return true, err
	}
	if err := bar(strings.Split(os.Getenv(barredVariable), ",")); err != nil {
		return true, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return true, err
	}
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return true, err
		}
	}
	return true, unix.Exec(os.Args[1], os.Args[1:], bareEnv())
}

// barredVariable tells the stage what to bar: networks, separated by commas.
const barredVariable = "BOXWRIGHT_BARRED"

// alwaysBarred is where clouds keep their machines' credentials and settings, and what is for
// neighbours only.
func alwaysBarred() []string {
	return []string{
		"169.254.0.0/16",     // link-local: most clouds
		"100.100.100.200/32", // Alibaba Cloud
		"168.63.129.16/32",   // Azure
		"192.0.0.192/32",     // Oracle Cloud
		"224.0.0.0/4",        // multicast
	}
}

// barred are the networks that no box reaches: alwaysBarred, and the host's own addresses, where
// it may offer what it offers nobody else. The tunnel carries no IPv6.
func barred(own []net.Addr) string {
	networks := alwaysBarred()
	for _, address := range own {
		network, ok := address.(*net.IPNet)
		if !ok || network.IP.To4() == nil || network.IP.IsLoopback() {
			continue // the box has a loopback of its own
		}
		ip := netip.AddrFrom4([4]byte(network.IP.To4()))
		if netip.MustParsePrefix(tunnelNet).Contains(ip) {
			continue // it is the tunnel's in the box, where a rule bars it
		}
		networks = append(networks, ip.String()+"/32")
	}
	slices.Sort(networks)
	return strings.Join(slices.Compact(networks), ",")
}

// bar makes the stage's namespace unable to reach networks, nor anything of slirp4netns' own but
// its resolver: what runs in the box has no right to change that. It fails unless the kernel does
// what it was told; an old one ignores what it does not understand.
func bar(networks []string) error {
	refused := []netip.AddrPort{}
	for _, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if err := addUnreachable(network); err != nil {
			return fmt.Errorf("no route bars %s: %w", network, err)
		}
		refused = append(refused, netip.AddrPortFrom(network.Addr(), dnsPort))
	}
	resolver := netip.MustParseAddr(tunnelDNS)
	if err := barTunnel(netip.MustParsePrefix(tunnelNet), resolver); err != nil {
		return fmt.Errorf("no rule bars %s, for which the kernel needs policy routing: %w", tunnelNet, err)
	}
	for _, other := range []uint16{1, dnsPort - 1, dnsPort + 1, 65535} {
		refused = append(refused, netip.AddrPortFrom(resolver, other))
	}
	refused = append(refused, netip.AddrPortFrom(resolver.Prev(), dnsPort))
	return errors.Join(prove(refused), provePassed(netip.AddrPortFrom(resolver, dnsPort)))
}

// dnsPort is the one that is passed. slirp4netns hands every port of its resolver's address on to
// the host's resolver's address, which may be a loopback one, or a cloud's for credentials too.
const dnsPort = 53

// barTunnel refuses slirp4netns' own network, but for its resolver.
func barTunnel(network netip.Prefix, resolver netip.Addr) error {
	only := netip.PrefixFrom(resolver, resolver.BitLen())
	return errors.Join(
		addRule(rule{to: only, priority: 1, protocol: unix.IPPROTO_UDP, port: dnsPort, table: unix.RT_TABLE_MAIN}),
		addRule(rule{to: only, priority: 1, protocol: unix.IPPROTO_TCP, port: dnsPort, table: unix.RT_TABLE_MAIN}),
		addRule(rule{to: network, priority: 2}),
	)
}

// prove fails unless the kernel refuses to send to all of them.
func prove(refused []netip.AddrPort) error {
	for _, target := range refused {
		switch err := route(target); {
		case err == nil:
			return fmt.Errorf("%s is not barred: the kernel is too old", target)
		case !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH):
			return fmt.Errorf("whether %s is barred cannot be told: %w", target, err)
		}
	}
	return nil
}

func provePassed(target netip.AddrPort) error {
	if err := route(target); err != nil {
		return fmt.Errorf("names cannot be resolved in the box: %w", err)
	}
	return nil
}

// route asks the kernel for a way, without sending anything: that is all a connect does for UDP.
func route(to netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was sent
	return unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
}
