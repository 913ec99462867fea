package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hostPort splits an authority. The port is "" when it is not written.
func hostPort(authority string) (host, port string, ok bool) {
	if rest, found := strings.CutPrefix(authority, "["); found {
		host, after, found := strings.Cut(rest, "]")
		if !found || after != "" && after[0] != ':' {
			return "", "", false
		}
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() {
			return "", "", false
		}
		return host, strings.TrimPrefix(after, ":"), after != ":"
	}
	host, port, found := strings.Cut(authority, ":")
	if found && port == "" {
		return "", "", false
	}
	return host, port, isHost(host)
}

// isHost reports whether s is an IPv4 address or a name in ASCII.
func isHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	// A name of digits and dots alone is an address, and must be a right one.
	if strings.Trim(s, "0123456789.") == "" {
		_, err := netip.ParseAddr(s)
		return err == nil
	}
	return true
}

func isPort(s string, least int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= 65535 && strconv.Itoa(n) == s
}

// checkAddress checks host:port to listen on; port 0 is any free one.
func checkAddress(text, shown string) error {
	const hint = "write host:port, such as 127.0.0.1:8080 or [::1]:8080"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if isPort(text, 1) {
			return bad(hint, "%s has no host", quote(shown)).guess("did you mean 127.0.0.1:" + text + "?")
		}
		if host, _, ok := hostPort(text); ok && host != "" {
			return bad(hint, "%s has no port", quote(shown))
		}
		return bad(hint, "%s is not an address", quote(shown))
	}
	if !isPort(port, 0) {
		return bad("a port is 0 to 65535", "%s is not a port", quote(port))
	}
	if host == "" || isHost(host) {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return bad(hint, "%s is not a host", quote(host))
	}
	return nil
}

// checkPublicURL checks a base for links: http or https, no query, nobody's
// credentials.
func checkPublicURL(text, shown string) error {
	const hint = "write it such as https://soap.example.com"
	u, err := url.Parse(text)
	switch {
	case mayHoldPassword(text):
		return bad(hint, "a public URL must not have a user and password")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return bad(hint, "%s is not an http or https URL", quote(shown))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return bad(hint, "a public URL must not have a query or a fragment")
	}
	if _, port, ok := hostPort(u.Host); !ok || port != "" && !isPort(port, 1) {
		return bad(hint, "%s is not a host", quote(u.Host))
	}
	return nil
}

// parseURL parses a URL that may hold credentials, so that no message quotes it.
func parseURL(text, _ string, r rules) (URL, error) {
	u, err := url.Parse(text)
	schemes := make([]string, len(r.schemes))
	for i, s := range r.schemes {
		schemes[i] = s + "://"
	}
	hint := fixed("write a URL that begins with " + strings.Join(schemes, ", "))
	switch {
	case err != nil || u.Scheme == "":
		return URL{}, bad(hint, "not a URL")
	case !slices.Contains(r.schemes, u.Scheme):
		// What stands before the first colon may also be a user's name.
		return URL{}, bad(hint, "the scheme is not a choice here")
	case u.Host == "":
		return URL{}, bad("", "the URL has no host")
	}
	if _, port, ok := hostPort(u.Host); !ok || port != "" && !isPort(port, 1) {
		return URL{}, bad("write SCHEME://HOST:PORT, and / @ : ? # in a password as %2F %40 %3A %3F %23", "the URL has no right host and port")
	}
	return URL{raw: text}, nil
}

// mayHoldPassword reports whether something that should be a URL has what can
// be a user and password: an @ where no path has begun, or behind a host that
// is none, since a password may have a slash. Such text is never quoted.
func mayHoldPassword(text string) bool {
	_, rest, found := strings.Cut(text, "://")
	if !found {
		rest = text
	}
	authority, _, _ := strings.Cut(rest, "/")
	if strings.Contains(authority, "@") {
		return true
	}
	_, port, ok := hostPort(authority)
	return (!ok || port != "" && !isPort(port, 1)) && strings.Contains(rest, "@")
}

// parseNodeURL parses the address of a node. The path of an HTTP node is kept
// octet for octet.
func parseNodeURL(text, shown string, _ rules) (NodeURL, error) {
	const hint = "a node is http://, https://, framed:// or framed+tls:// with host and port, or builtin:echo"
	if name, ok := strings.CutPrefix(text, "builtin:"); ok {
		builtins := []string{"echo", "page", "sink"}
		if !slices.Contains(builtins, name) {
			return NodeURL{}, badWord(name, builtins, "there is no built-in node %s")
		}
		return NodeURL{Scheme: NodeBuiltin, Builtin: name}, nil
	}
	if name, ok := strings.CutPrefix(text, "site:"); ok {
		site, route, _ := strings.Cut(name, "/")
		if !isName(site) || !isName(route) {
			return NodeURL{}, bad("write site:SITE/ROUTE with the names of a site and of a route there", "%s is not a node of a site", quote(shown))
		}
		return NodeURL{Scheme: NodeSite, Site: site, Route: route}, nil
	}
	if mayHoldPassword(text) {
		return NodeURL{}, bad("write them as headers of the backend, such as headers: {Authorization: file:PATH}", "a node must not have a user and password")
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		if host, port, ok := hostPort(strings.SplitN(text, "/", 2)[0]); ok && port != "" && host != "" {
			return NodeURL{}, bad(hint, "the node has no scheme").guess("did you mean http://" + cut(text) + "?")
		}
		return NodeURL{}, bad(hint, "%s is not a node", quote(shown))
	}
	schemes := []string{string(NodeHTTP), string(NodeHTTPS), string(NodeFramed), string(NodeFramedTLS)}
	if !slices.Contains(schemes, scheme) {
		if near := nearest(scheme, schemes); near != "" {
			return NodeURL{}, bad(hint, "%s is not a kind of node", quote(scheme)).guess("did you mean " + near + "://? " + hint)
		}
		return NodeURL{}, bad(hint, "%s is not a kind of node", quote(scheme))
	}
	n := NodeURL{Scheme: NodeScheme(scheme)}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	host, port, ok := hostPort(authority)
	switch {
	case !ok && strings.IndexFunc(authority, func(c rune) bool { return c > unicode.MaxASCII }) >= 0:
		return NodeURL{}, bad("write the name in its xn-- form", "the host has letters outside ASCII")
	case !ok:
		return NodeURL{}, bad("write host:port, or [address]:port for IPv6", "%s is not a host", quote(authority))
	case port != "" && !isPort(port, 1):
		return NodeURL{}, bad("a port is 1 to 65535", "%s is not a port", quote(port))
	}
	n.Host = authority
	if n.Framed() {
		return framedNode(n, host, port, rest)
	}
	if port == "" {
		port = "80"
		if n.Scheme == NodeHTTPS {
			port = "443"
		}
	}
	n.Address = net.JoinHostPort(host, port)
	path, _, query := strings.Cut(rest, "?")
	switch {
	case query:
		return NodeURL{}, bad("remove it, the caller's query is appended", "the URL of a node must not have a query")
	case strings.Contains(path, "#"):
		return NodeURL{}, bad("remove it", "the URL of a node must not have a fragment")
	}
	n.Path = path
	if path == "" {
		n.Path = "/"
	}
	return n, checkPath(n.Path)
}

// framedNode reads what follows the authority of a framed node.
func framedNode(n NodeURL, host, port, rest string) (NodeURL, error) {
	if port == "" {
		return NodeURL{}, bad("there is no usual port for framed nodes", "the node has no port")
	}
	n.Address, n.Length = net.JoinHostPort(host, port), 2
	switch strings.TrimPrefix(rest, "/") {
	case "", "?length=2":
	case "?length=4":
		n.Length = 4
	default:
		return NodeURL{}, bad("only ?length=2 or ?length=4 may follow host and port", "%s does not belong to a framed node", quote(rest))
	}
	return n, nil
}

// checkPath refuses paths that no request target can have.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return bad("", "a path begins with a slash").guess("did you mean /" + cut(path) + "?")
	}
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c >= utf8.RuneSelf:
			return bad("write it percent-encoded, as it is on the wire", "the path has letters outside ASCII")
		case c <= ' ' || c == 0x7f || strings.IndexByte("\"<>\\^`{|}#?", c) >= 0:
			return bad("write it percent-encoded, as it is on the wire", "the path has the character %s", strconv.QuoteRune(rune(c))).hidden("the path has a character that no path has")
		case c == '%' && (i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2])):
			return bad("write a percent sign as %25", "the path has a percent sign without two hexadecimal digits")
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." || segment == "." {
			return bad("write the path that is meant", "the path has the segment %s", quote(segment)).hidden("the path has the segment . or ..")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// upwards is a segment that some server takes for ".."; requests with one are
// not routed.
var upwards = regexp.MustCompile(`(?i)(?:/|%2f|%5c)(?:\.|%2e){2}(?:$|;|/|%2f|%5c)`)

// parsePathPattern parses an exact path or /prefix/*.
func parsePathPattern(text, _ string, _ rules) (PathPattern, error) {
	p := PathPattern{Path: text}
	if prefix, found := strings.CutSuffix(text, "/*"); found {
		p = PathPattern{Path: prefix, Prefix: true}
	}
	if p.Prefix && p.Path == "" {
		return p, nil
	}
	if strings.Contains(p.Path, "*") {
		return PathPattern{}, bad("a path is exact, or a prefix written /prefix/*", "the * must be the last segment")
	}
	if err := checkPath(p.Path); err != nil {
		return PathPattern{}, err
	}
	if up := upwards.FindString(p.Path); up != "" {
		return PathPattern{}, bad("write the path that is meant", "the path has %s, which reads as .. and is refused in every request", quote(up)).
			hidden("the path has a segment that reads as .. and is refused in every request")
	}
	return p, nil
}

// parseHashBy parses cookie:N, header:N, client and key.
func parseHashBy(text, shown string, _ rules) (HashBy, error) {
	kind, name, named := strings.Cut(text, ":")
	switch {
	case !named && (text == string(HashClient) || text == string(HashKey)):
		return HashBy{Kind: HashKind(text)}, nil
	case named && (kind == string(HashCookie) || kind == string(HashHeader)) && isToken(name):
		return HashBy{Kind: HashKind(kind), Name: name}, nil
	}
	return HashBy{}, bad("write cookie:NAME, header:NAME, client or key", "%s is not a value of this key", quote(shown))
}

// isToken reports whether s is a token of RFC 9110 §5.6.2: a method, or the
// name of a field or cookie.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// parseQName parses prefix:local, {uri}local and local.
func (l *loader) parseQName(text, shown string, _ rules) (QName, error) {
	q, rest, err := l.scanQName(text, shown)
	if err == nil && rest != "" {
		err = bad(qnameHint, "%s is not a qualified name", quote(shown))
	}
	if err != nil {
		return QName{}, err
	}
	return q, nil
}

const qnameHint = "write prefix:local, {uri}local, or local for any namespace"

// scanQName reads the QName at the start of text, up to a slash.
func (l *loader) scanQName(text, shown string) (q QName, rest string, err error) {
	if after, found := strings.CutPrefix(text, "{"); found {
		space, local, found := strings.Cut(after, "}")
		local, rest = untilSlash(local)
		if !found || !isNCName(local) {
			return q, rest, bad(qnameHint, "%s is not a qualified name", quote(shown))
		}
		return QName{Space: space, Local: local}, rest, nil
	}
	name, rest := untilSlash(text)
	prefix, local, found := strings.Cut(name, ":")
	if !found {
		prefix, local = "", name
	}
	if !isNCName(local) || found && !isNCName(prefix) {
		return q, rest, bad(qnameHint, "%s is not a qualified name", quote(shown))
	}
	if !found {
		return QName{Local: local, AnySpace: true}, rest, nil
	}
	space, known := l.cfg.Namespaces[prefix]
	if !known {
		prefixes := make([]string, 0, len(l.cfg.Namespaces))
		for p := range l.cfg.Namespaces {
			prefixes = append(prefixes, p)
		}
		slices.Sort(prefixes)
		const hint = "add the prefix to namespaces, or write {uri}local"
		if near := nearest(prefix, prefixes); near != "" {
			return q, rest, bad(hint, "the prefix %s is not in namespaces", quote(prefix)).guess("did you mean " + near + ":" + cut(local) + "?")
		}
		return q, rest, bad(hint, "the prefix %s is not in namespaces", quote(prefix)).guess("add it to namespaces, or write {uri}" + cut(local))
	}
	if l.isHidden(joined("namespaces", prefix)) {
		l.borrowed = true
	}
	return QName{Space: space, Local: local}, rest, nil
}

func untilSlash(s string) (before, rest string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// isNCName reports whether s is a name without colon as Namespaces in XML §3
// has it, by the general categories that the productions follow.
func isNCName(s string) bool {
	for i, c := range s {
		switch {
		case c == '_' || unicode.IsLetter(c):
		case i > 0 && (c == '-' || c == '.' || c == '·' || unicode.IsDigit(c) || unicode.IsMark(c)):
		default:
			return false
		}
	}
	return s != "" && utf8.ValidString(s)
}

// parseOrderBy parses none, route, http:NAME, header:QNAME and
// body:/QNAME/QNAME.
func (l *loader) parseOrderBy(text, shown string, _ rules) (OrderBy, error) {
	const hint = "write none, route, http:NAME, header:QNAME or body:/QNAME/QNAME"
	kind, arg, _ := strings.Cut(text, ":")
	o := OrderBy{Kind: OrderKind(kind)}
	switch {
	case text == string(OrderNone) || text == string(OrderRoute):
		return o, nil
	case o.Kind == OrderHTTP && isToken(arg):
		o.HTTP = arg
		return o, nil
	case o.Kind == OrderHeader && arg != "":
		q, err := l.parseQName(arg, arg, rules{})
		if err != nil {
			return OrderBy{}, err
		}
		o.Path = []QName{q}
		return o, nil
	case o.Kind == OrderBody && strings.HasPrefix(arg, "/"):
		for arg != "" {
			q, rest, err := l.scanQName(arg[1:], shown)
			if err != nil {
				return OrderBy{}, err
			}
			o.Path = append(o.Path, q)
			arg = rest
		}
		return o, nil
	}
	return OrderBy{}, bad(hint, "%s is not a key of messages", quote(shown))
}

// parseDedupBy parses message-id, or a form of order_by that yields a key.
func (l *loader) parseDedupBy(text, shown string, r rules) (DedupBy, error) {
	if text == "message-id" {
		return DedupBy{MessageID: true}, nil
	}
	o, err := l.parseOrderBy(text, shown, r)
	if err != nil || o.Kind == OrderNone || o.Kind == OrderRoute {
		return DedupBy{}, bad("write message-id, http:NAME, header:QNAME or body:/QNAME/QNAME", "%s does not tell messages apart", quote(shown))
	}
	return DedupBy{Key: o}, nil
}
