package bench

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// connFacts is what the system knows of the way that a connection takes: the
// round trip time in µs, and what its network card can carry of TCP payload in
// Mbit/s; 0 where it does not know.
func connFacts(conn net.Conn) (rtt, line float64) {
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return 0, 0
	}
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				rtt = float64(info.Rtt)
			}
		})
	}
	if a, ok := t.LocalAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		line = netGoodput * cardSpeed(a.IP)
	}
	return rtt, line
}

// cardSpeed is what the card that has an address says of itself, in Mbit/s. Cards
// that are none, as those of virtual machines, often say -1.
func cardSpeed(ip net.IP) float64 {
	cards, err := net.Interfaces()
	if err != nil {
		return 0
	}
	for _, card := range cards {
		addrs, err := card.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); !ok || !n.IP.Equal(ip) {
				continue
			}
			told, err := os.ReadFile(filepath.Join("/sys/class/net", card.Name, "speed"))
			if err != nil {
				return 0
			}
			speed, err := strconv.ParseFloat(strings.TrimSpace(string(told)), 64)
			if err != nil || speed < 0 {
				return 0
			}
			return speed
		}
	}
	return 0
}
