package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// maxTunnelHead bounds the head of a proxy's answer to CONNECT.
const maxTunnelHead = 16 << 10

var errTunnelHead = errors.New("upstream: the proxy's answer to CONNECT is not HTTP/1.1, or its head does not end")

// openTunnel makes a connection to a proxy one to addr, which is host:port (RFC
// 9110 §9.3.6). Its head is read octet by octet, so that none of what follows it
// is taken.
func openTunnel(ctx context.Context, c net.Conn, addr, credentials string) error {
	// No deadline of its own: it would be a moment earlier than that of ctx.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := askTunnel(c, addr, credentials)
	if !stop() {
		return context.Cause(ctx)
	}
	_ = c.SetDeadline(time.Time{})
	return err
}

func askTunnel(c net.Conn, addr, credentials string) error {
	head := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if credentials != "" {
		head += "Proxy-Authorization: " + credentials + "\r\n"
	}
	if _, err := c.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	var answer []byte
	var one [1]byte
	for !bytes.HasSuffix(answer, []byte("\r\n\r\n")) {
		if len(answer) == maxTunnelHead {
			return errTunnelHead
		}
		n, err := c.Read(one[:])
		answer = append(answer, one[:n]...)
		if err != nil && n == 0 {
			return err
		}
	}
	line, _, _ := bytes.Cut(answer, []byte("\r\n"))
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return errTunnelHead
	}
	if line[9] != '2' {
		return fmt.Errorf("upstream: the proxy refused a tunnel with status %.3q", line[9:12])
	}
	return nil
}

// basicOf makes basic credentials of the user information of a URL, "" of none.
func basicOf(u *url.Userinfo) string {
	if u == nil {
		return ""
	}
	password, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))
}
