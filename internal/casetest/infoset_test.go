package casetest

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	ns11  = "http://schemas.xmlsoap.org/soap/envelope/"
	ns12  = "http://www.w3.org/2003/05/soap-envelope"
	nsXML = "http://www.w3.org/XML/1998/namespace"
	nsNS  = "http://www.w3.org/2000/xmlns/"
)

// A qname is an expanded name; it prints as {space}local.
type qname struct{ Space, Local string }

func (q qname) String() string { return "{" + q.Space + "}" + q.Local }

// An item is an element, a run of text, a comment or a processing instruction
// of the XML Information Set. Adjacent character data is one item.
type item struct {
	Kind  byte // 'e', 't', 'c', 'p'
	Name  qname
	As    string            // name as written
	Attrs map[qname]string  // without namespace declarations
	Scope map[string]string // prefix → namespace in scope, "" = default
	Text  string            // of 't', 'c', 'p' (target and data)
	Kids  []*item
}

// A tree is a parsed document. It is the oracle of this package: an own small
// reader (XML 1.0 and Namespaces 1.0 without DTDs), written for clarity, that
// shares nothing with the product.
type tree struct {
	Root     *item
	Before   []*item // comments and PIs of the prolog
	After    []*item
	Declared string // encoding of the XML declaration, "" if none
	HasDecl  bool
}

type oracle struct {
	s string
	i int
	t *tree
}

var errDTD = errors.New("oracle: document type declaration")

// parseXML reads a decoded document (see decodeText).
func parseXML(s string) (*tree, error) {
	o := &oracle{s: normalizeEnds(s), t: &tree{}}
	for i, r := range o.s {
		if r == utf8.RuneError && !strings.HasPrefix(o.s[i:], "\uFFFD") || !isChar(r) {
			return nil, fmt.Errorf("oracle: offset %d: illegal character %U", i, r)
		}
	}
	return o.t, o.document()
}

// normalizeEnds is XML 1.0 §2.11; it comes before parsing, so &#13; survives.
func normalizeEnds(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func isChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}

func (o *oracle) errorf(format string, a ...any) error {
	return fmt.Errorf("oracle: offset %d: %s", o.i, fmt.Sprintf(format, a...))
}

func (o *oracle) has(p string) bool { return strings.HasPrefix(o.s[o.i:], p) }

func (o *oracle) space() (n int) {
	for o.i < len(o.s) && strings.IndexByte(" \t\n\r", o.s[o.i]) >= 0 {
		o.i++
		n++
	}
	return n
}

// until consumes up to and including end and returns what was before it.
func (o *oracle) until(end string) (string, error) {
	n := strings.Index(o.s[o.i:], end)
	if n < 0 {
		return "", o.errorf("no %q", end)
	}
	s := o.s[o.i : o.i+n]
	o.i += n + len(end)
	return s, nil
}

func (o *oracle) document() error {
	if o.has("<?xml") && len(o.s) > 5 && strings.IndexByte(" \t\n", o.s[5]) >= 0 {
		o.i = 5
		if err := o.declaration(); err != nil {
			return err
		}
	}
	for {
		o.space()
		switch {
		case o.i == len(o.s):
			if o.t.Root == nil {
				return o.errorf("no document element")
			}
			return nil
		case o.has("<!DOCTYPE"):
			return errDTD
		case o.has("<!--"), o.has("<?"):
			it, err := o.misc()
			if err != nil {
				return err
			}
			if o.t.Root == nil {
				o.t.Before = append(o.t.Before, it)
			} else {
				o.t.After = append(o.t.After, it)
			}
		case o.t.Root == nil && o.has("<"):
			root, err := o.element(map[string]string{"xml": nsXML})
			if err != nil {
				return err
			}
			o.t.Root = root
		default:
			return o.errorf("%.20q outside the document element", o.s[o.i:])
		}
	}
}

func (o *oracle) declaration() error {
	o.t.HasDecl = true
	order := []string{"version", "encoding", "standalone"}
	next := 0
	for {
		sp := o.space()
		if o.has("?>") {
			o.i += 2
			if next == 0 {
				return o.errorf("declaration without version")
			}
			return nil
		}
		name, err := o.until("=")
		if err != nil || sp == 0 {
			return o.errorf("bad declaration")
		}
		name = strings.TrimRight(name, " \t\n")
		o.space()
		v, err := o.quoted()
		if err != nil {
			return err
		}
		at := slices.Index(order, name)
		if at < next || next == 0 && at != 0 {
			return o.errorf("bad declaration: %s", name)
		}
		next = at + 1
		switch {
		case name == "version" && v != "1.0", name == "standalone" && v != "yes" && v != "no", name == "encoding" && !encName(v):
			return o.errorf("bad declaration: %s=%q", name, v)
		case name == "encoding":
			o.t.Declared = v
		}
	}
}

func encName(v string) bool {
	for i, c := range []byte(v) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return v != ""
}

func (o *oracle) quoted() (string, error) {
	if o.i == len(o.s) || o.s[o.i] != '"' && o.s[o.i] != '\'' {
		return "", o.errorf("no quoted value")
	}
	q := o.s[o.i : o.i+1]
	o.i++
	return o.until(q)
}

// misc reads a comment or a processing instruction.
func (o *oracle) misc() (*item, error) {
	if o.has("<!--") {
		o.i += 4
		s, err := o.until("--")
		if err != nil {
			return nil, err
		}
		if !o.has(">") {
			return nil, o.errorf("-- inside a comment")
		}
		o.i++
		return &item{Kind: 'c', Text: s}, nil
	}
	o.i += 2
	target, err := o.name()
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(target, "xml") || strings.Contains(target, ":") {
		return nil, o.errorf("reserved target %s", target)
	}
	if !o.has("?>") && o.space() == 0 {
		return nil, o.errorf("no space after the target")
	}
	data, err := o.until("?>")
	return &item{Kind: 'p', Text: target + " " + data}, err
}

func (o *oracle) name() (string, error) {
	start := o.i
	for o.i < len(o.s) {
		r, n := utf8.DecodeRuneInString(o.s[o.i:])
		if !nameRune(r, o.i == start) {
			break
		}
		o.i += n
	}
	if o.i == start {
		return "", o.errorf("no name")
	}
	return o.s[start:o.i], nil
}

// nameRune is NameStartChar and NameChar of XML 1.0, fifth edition.
func nameRune(r rune, first bool) bool {
	in := func(ranges ...rune) bool {
		for i := 0; i < len(ranges); i += 2 {
			if r >= ranges[i] && r <= ranges[i+1] {
				return true
			}
		}
		return false
	}
	return in(':', ':', 'A', 'Z', '_', '_', 'a', 'z', 0xC0, 0xD6, 0xD8, 0xF6, 0xF8, 0x2FF, 0x370, 0x37D, 0x37F, 0x1FFF, 0x200C, 0x200D,
		0x2070, 0x218F, 0x2C00, 0x2FEF, 0x3001, 0xD7FF, 0xF900, 0xFDCF, 0xFDF0, 0xFFFD, 0x10000, 0xEFFFF) ||
		!first && in('-', '.', '0', '9', 0xB7, 0xB7, 0x300, 0x36F, 0x203F, 0x2040)
}

// references replaces character and predefined entity references.
func (o *oracle) references(s string, attr bool) (string, error) {
	var b strings.Builder
	for s != "" {
		n := strings.IndexByte(s, '&')
		if n < 0 {
			n = len(s)
		}
		text := s[:n]
		if attr {
			text = strings.NewReplacer("\t", " ", "\n", " ").Replace(text)
		}
		b.WriteString(text)
		if s = s[n:]; s == "" {
			break
		}
		ref, rest, ok := strings.Cut(s[1:], ";")
		if !ok {
			return "", o.errorf("bare &")
		}
		s = rest
		if num, ok := strings.CutPrefix(ref, "#"); ok {
			base := 10
			if hex, ok := strings.CutPrefix(num, "x"); ok {
				num, base = hex, 16
			}
			r, err := strconv.ParseUint(num, base, 32)
			if err != nil || !isChar(rune(r)) {
				return "", o.errorf("bad reference &%s;", ref)
			}
			b.WriteRune(rune(r))
			continue
		}
		v, ok := map[string]string{"lt": "<", "gt": ">", "amp": "&", "quot": `"`, "apos": "'"}[ref]
		if !ok {
			return "", o.errorf("unknown entity &%s;", ref)
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// expand resolves a written name; attributes do not take the default.
func (o *oracle) expand(as string, scope map[string]string, attr bool) (qname, error) {
	prefix, local, found := strings.Cut(as, ":")
	if !found {
		if attr {
			return qname{"", as}, nil
		}
		return qname{scope[""], as}, nil
	}
	r, _ := utf8.DecodeRuneInString(local)
	if prefix == "" || local == "" || strings.Contains(local, ":") || !nameRune(r, true) {
		return qname{}, o.errorf("%q is no QName", as)
	}
	ns, ok := scope[prefix]
	if !ok || prefix == "xmlns" {
		return qname{}, o.errorf("prefix of %q is not bound", as)
	}
	return qname{ns, local}, nil
}

// text is the character data below it, in document order.
func (it *item) text() string {
	if it.Kind == 't' {
		return it.Text
	}
	var b strings.Builder
	for _, k := range it.Kids {
		if k.Kind == 'e' || k.Kind == 't' {
			b.WriteString(k.text())
		}
	}
	return b.String()
}

// elements are the child elements.
func (it *item) elements() (out []*item) {
	for _, k := range it.Kids {
		if k.Kind == 'e' {
			out = append(out, k)
		}
	}
	return out
}

// walk visits every element, depth first.
func (it *item) walk(f func(*item)) {
	f(it)
	for _, k := range it.elements() {
		k.walk(f)
	}
}

// child is the first child element of that local name in that namespace.
func (it *item) child(space, local string) *item {
	if it == nil {
		return nil
	}
	for _, k := range it.elements() {
		if k.Name == (qname{space, local}) {
			return k
		}
	}
	return nil
}

// named finds the elements whose name as written is as, anywhere.
func (t *tree) named(as string) (out []*item) {
	t.Root.walk(func(e *item) {
		if e.As == as || !strings.Contains(as, ":") && e.Name.Local == as {
			out = append(out, e)
		}
	})
	return out
}

// resolve expands a QName that stands in content, by the bindings in scope.
func (it *item) resolve(value string) string {
	prefix, local, found := strings.Cut(strings.TrimSpace(value), ":")
	if !found {
		prefix, local = "", prefix
	}
	ns, ok := it.Scope[prefix]
	if !ok && prefix != "" {
		return "unbound:" + value
	}
	return qname{ns, local}.String()
}

// dump prints an item so that equal infosets print equally. Comments and
// processing instructions count too unless skip says otherwise.
func dump(it *item, skip func(parent *item, kid *item) bool) string {
	var b strings.Builder
	var rec func(e *item, depth int, outer map[string]string)
	rec = func(e *item, depth int, outer map[string]string) {
		pad := strings.Repeat(" ", depth)
		fmt.Fprintf(&b, "%s<%s>", pad, e.Name)
		var lines []string
		for n, v := range e.Attrs {
			lines = append(lines, fmt.Sprintf(" @%s=%q", n, v))
		}
		for p, u := range e.Scope { // in-scope namespaces, where they differ from the parent's
			if ou, ok := outer[p]; !ok || ou != u {
				lines = append(lines, fmt.Sprintf(" ns %s=%q", p, u))
			}
		}
		sort.Strings(lines)
		b.WriteString(strings.Join(lines, "") + "\n")
		var run strings.Builder
		flush := func() {
			if run.Len() > 0 {
				fmt.Fprintf(&b, "%s %q\n", pad, run.String())
				run.Reset()
			}
		}
		for _, k := range e.Kids {
			switch {
			case k.Kind == 't':
				run.WriteString(k.Text)
			case skip != nil && skip(e, k):
			case k.Kind == 'e':
				flush()
				rec(k, depth+1, e.Scope)
			default:
				flush()
				fmt.Fprintf(&b, "%s %c%q\n", pad, k.Kind, k.Text)
			}
		}
		flush()
	}
	rec(it, 0, map[string]string{"xml": nsXML})
	return b.String()
}
