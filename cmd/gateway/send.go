package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"soapway/internal/frame"
	"soapway/soapcodec"
)

// sendFlags are the flags of send as typed.
type sendFlags struct {
	to, action, soap, user, rate string
	headers                      []string
	cert, key, ca                string
	times, conns                 int
	timeout                      time.Duration
}

// A plan is a send that makes sense: what goes where, and how often.
type plan struct {
	target   *target
	messages []*message // in order; never empty
	unread   int        // files of folders that could not be read, which were reported
	times    int        // how often all of them are sent
	conns    int
	interval time.Duration // between two sends; 0 is as fast as it goes
	timeout  time.Duration // of one message
}

// total is the number of messages that will be sent.
func (p *plan) total() int { return p.times * len(p.messages) }

// A target is where messages go.
type target struct {
	url    string // of http and https
	host   string // host:port of framed and framed+tls
	framed bool
	length int         // of framed: 2 or 4
	tls    *tls.Config // nil: in the clear
	header http.Header // set by -H, under the names as typed
	user   *url.Userinfo
	action *string // set by --action
}

func (c *cli) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send --to URL FILE|DIR…",
		Short: "send envelopes and print what comes back",
		Long: `Sends each FILE, each *.xml of each DIR in the order of their names, or with -
what it reads from stdin, as it is. URL is http://, https://, framed://HOST:PORT
or framed+tls://HOST:PORT, the latter two with ?length=4 for lengths of 4 bytes.

One message: status and message id on stderr, the reply on stdout. Several: a
line for each and a summary on stdout. Exit code 1 if any answer was a fault or
not a success, or did not come.`,
		Example: `  gateway send --to http://127.0.0.1:8080/echo message.xml
  gateway send --to framed://127.0.0.1:7000 -n 1000 -C 8 messages/
  gateway send --to https://gw.example/orders --user u:p -H 'X-Tenant: north' - < order.xml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.plan(cmd, &f, args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return c.runSend(ctx, p)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.to, "to", "", "`URL` to send to")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "header field as `'Name: value'`; 'Name:' leaves a field out")
	fl.StringVar(&f.action, "action", "", "the SOAP action: SOAPAction of 1.1, action parameter of 1.2")
	fl.StringVar(&f.soap, "soap", "", "`version` 1.1 or 1.2 of the media type (default: that of the envelope)")
	fl.StringVar(&f.user, "user", "", "`name:password` for basic authentication")
	fl.StringVar(&f.cert, "cert", "", "client certificate, PEM `file`")
	fl.StringVar(&f.key, "key", "", "key of the client certificate, PEM `file`")
	fl.StringVar(&f.ca, "ca", "", "authorities to believe instead of the system's, PEM `file`")
	fl.IntVarP(&f.times, "repeat", "n", 1, "send everything this many `times`")
	fl.IntVarP(&f.conns, "connections", "C", 1, "`connections` to send over at once")
	fl.StringVar(&f.rate, "rate", "", "start messages at this `rate`, such as 50/s, whether or not answers come")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "`time` to wait for an answer")
	return cmd
}

// plan makes sense of the flags. Its errors are usage errors, or problems for
// files that cannot be read.
func (c *cli) plan(cmd *cobra.Command, f *sendFlags, args []string) (*plan, error) {
	t, err := parseTarget(f.to)
	if err != nil {
		return nil, err
	}
	p := &plan{target: t, times: f.times, conns: f.conns, timeout: f.timeout}
	for _, n := range []struct {
		flag string
		ok   bool
	}{{"-n", f.times > 0}, {"-C", f.conns > 0}, {"--timeout", f.timeout > 0}} {
		if !n.ok {
			return nil, &usageError{"send: " + n.flag + " must be more than 0", ""}
		}
	}
	if p.interval, err = parseRate(f.rate); err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("action") {
		t.action = &f.action
	}
	if t.framed && (len(f.headers) > 0 || f.user != "" || t.action != nil || f.soap != "") {
		return nil, &usageError{"send: a framed message is the envelope alone: -H, --action, --soap and --user need an http:// or https:// URL", ""}
	}
	if t.header, err = parseHeaders(f.headers); err != nil {
		return nil, err
	}
	if f.user != "" {
		name, password, ok := strings.Cut(f.user, ":")
		if !ok {
			return nil, &usageError{"send: --user must be name:password", ""}
		}
		t.user = url.UserPassword(name, password)
	}
	if err := t.loadTLS(f); err != nil {
		return nil, err
	}
	version, err := parseVersion(f.soap)
	if err != nil {
		return nil, err
	}
	p.messages, p.unread, err = c.messages(args, version)
	return p, err
}

func parseTarget(to string) (*target, error) {
	const hint = "such as http://127.0.0.1:8080/echo or framed://127.0.0.1:7000?length=4"
	if to == "" {
		return nil, &usageError{"send: --to is missing", hint}
	}
	u, err := url.Parse(to)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may hold a password
		}
		return nil, &usageError{"send: --to is not a URL: " + err.Error(), hint}
	}
	t := &target{}
	switch u.Scheme {
	case "https", "framed+tls":
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	case "http", "framed":
	case "":
		return nil, &usageError{fmt.Sprintf("send: --to %.60q has no scheme", to), hint}
	default:
		return nil, &usageError{fmt.Sprintf("send: --to has the scheme %.20q, want http, https, framed or framed+tls", u.Scheme), hint}
	}
	if u.Hostname() == "" {
		return nil, &usageError{fmt.Sprintf("send: --to %.60q has no host", to), hint}
	}
	if u.User != nil {
		return nil, &usageError{"send: --to must not hold credentials", "use --user"}
	}
	if strings.HasPrefix(u.Scheme, "http") {
		u.Fragment = ""
		t.url = u.String()
		return t, nil
	}
	t.framed = true
	t.host = u.Host
	if u.Port() == "" || (u.Path != "" && u.Path != "/") {
		return nil, &usageError{fmt.Sprintf("send: --to %.60q must be %s://HOST:PORT", to, u.Scheme), hint}
	}
	t.length = 2
	for name, values := range u.Query() {
		n, err := strconv.Atoi(values[0])
		if name != "length" || err != nil || !frame.ValidWidth(n) {
			return nil, &usageError{fmt.Sprintf("send: --to has %.20q, want length=2 or length=4", name+"="+values[0]), hint}
		}
		t.length = n
	}
	return t, nil
}

// loadTLS fills in what the flags say about TLS.
func (t *target) loadTLS(f *sendFlags) error {
	if f.ca == "" && f.cert == "" && f.key == "" {
		return nil
	}
	if t.tls == nil {
		return &usageError{"send: --ca, --cert and --key need an https:// or framed+tls:// URL", ""}
	}
	if (f.cert == "") != (f.key == "") {
		return &usageError{"send: --cert and --key go together", ""}
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return &problem{fmt.Errorf("send: --ca: %w", err), ""}
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return &problem{fmt.Errorf("send: --ca: %s has no certificate in PEM form", f.ca), ""}
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return &problem{fmt.Errorf("send: --cert, --key: %w", err), ""}
		}
		t.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// parseHeaders keeps names as they are typed; an empty value is a nil entry,
// which leaves the field out.
func parseHeaders(fields []string) (http.Header, error) {
	h := http.Header{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, ":")
		value = strings.TrimSpace(value)
		if !ok || !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, &usageError{fmt.Sprintf("send: -H %.60q is not a header field", f), "such as -H 'X-Tenant: north'"}
		}
		switch {
		case value == "" && h[name] == nil:
			h[name] = nil
		case value != "":
			h[name] = append(h[name], value)
		}
	}
	return h, nil
}

// isToken reports whether s is a field name (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// parseRate reads N/s, N/m, or N alone for N/s, as the time between messages.
func parseRate(rate string) (time.Duration, error) {
	if rate == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(rate, "/")
	per := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || per == 0 || !(n > 0 && n <= 1e9) || float64(per)/n > float64(24*time.Hour) {
		return 0, &usageError{fmt.Sprintf("send: --rate %.20q is not a rate", rate), "such as 50/s or 30/m"}
	}
	return max(1, time.Duration(float64(per)/n)), nil
}

func parseVersion(s string) (soapcodec.Version, error) {
	switch s {
	case "":
		return soapcodec.V0, nil
	case "1.1":
		return soapcodec.V11, nil
	case "1.2":
		return soapcodec.V12, nil
	}
	return soapcodec.V0, &usageError{fmt.Sprintf("send: --soap %.20q is not 1.1 or 1.2", s), ""}
}

// sender returns what the messages of one connection go through.
func (t *target) sender(timeout time.Duration) sender {
	if t.framed {
		return &framedSender{target: t, timeout: timeout}
	}
	return newHTTPSender(t, timeout)
}

// A sender sends messages one after the other over a connection of its own.
type sender interface {
	// send returns what came back. Its error says that nothing did.
	send(ctx context.Context, m *message) (*answer, error)
	close()
}
