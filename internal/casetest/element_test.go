package casetest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
)

// element reads from its start tag to its end tag. The recursion is fine: the
// oracle only ever sees documents of the tests.
func (o *oracle) element(outer map[string]string) (*item, error) {
	o.i++
	as, err := o.name()
	if err != nil {
		return nil, err
	}
	e := &item{Kind: 'e', As: as, Attrs: map[qname]string{}, Scope: maps.Clone(outer)}
	written, empty, err := o.attributes()
	if err != nil {
		return nil, err
	}
	for name, v := range written {
		if err := o.declare(e.Scope, name, v); err != nil {
			return nil, err
		}
	}
	for name, v := range written {
		if name == "xmlns" || strings.HasPrefix(name, "xmlns:") {
			continue
		}
		q, err := o.expand(name, e.Scope, true)
		if err != nil {
			return nil, err
		}
		if _, twice := e.Attrs[q]; twice {
			return nil, o.errorf("attribute %s twice", q)
		}
		e.Attrs[q] = v
	}
	if e.Name, err = o.expand(as, e.Scope, false); err != nil || empty {
		return e, err
	}
	return e, o.content(e)
}

func (o *oracle) declare(scope map[string]string, name, uri string) error {
	prefix, ok := strings.CutPrefix(name, "xmlns:")
	switch {
	case name == "xmlns":
		prefix = ""
	case !ok:
		return nil
	case prefix == "" || strings.Contains(prefix, ":"), prefix == "xmlns", uri == "", prefix == "xml" && uri != nsXML:
		return o.errorf("bad declaration %s=%q", name, uri)
	}
	if uri == nsNS || uri == nsXML && prefix != "xml" {
		return o.errorf("bad declaration %s=%q", name, uri)
	}
	scope[prefix] = uri
	if prefix == "" && uri == "" {
		delete(scope, "")
	}
	return nil
}

// attributes reads the rest of a start tag.
func (o *oracle) attributes() (written map[string]string, empty bool, err error) {
	written = map[string]string{}
	for {
		sp := o.space()
		switch {
		case o.has("/>"):
			o.i += 2
			return written, true, nil
		case o.has(">"):
			o.i++
			return written, false, nil
		case sp == 0:
			return nil, false, o.errorf("start tag goes on with %.10q", o.s[o.i:])
		}
		name, err := o.name()
		if err != nil {
			return nil, false, err
		}
		o.space()
		if !o.has("=") {
			return nil, false, o.errorf("attribute %s without value", name)
		}
		o.i++
		o.space()
		v, err := o.quoted()
		if err != nil {
			return nil, false, err
		}
		if strings.Contains(v, "<") {
			return nil, false, o.errorf("< in attribute %s", name)
		}
		if v, err = o.references(v, true); err != nil {
			return nil, false, err
		}
		if _, twice := written[name]; twice {
			return nil, false, o.errorf("attribute %s twice", name)
		}
		written[name] = v
	}
}

func (o *oracle) content(e *item) error {
	text := func(s string) {
		if n := len(e.Kids); n > 0 && e.Kids[n-1].Kind == 't' {
			e.Kids[n-1].Text += s
		} else if s != "" {
			e.Kids = append(e.Kids, &item{Kind: 't', Text: s})
		}
	}
	for o.i < len(o.s) {
		switch {
		case o.has("</"):
			o.i += 2
			as, err := o.until(">")
			if err != nil {
				return err
			}
			if strings.TrimRight(as, " \t\n") != e.As {
				return o.errorf("end tag %q for %q", as, e.As)
			}
			return nil
		case o.has("<![CDATA["):
			o.i += len("<![CDATA[")
			s, err := o.until("]]>")
			if err != nil {
				return err
			}
			text(s)
		case o.has("<!--"), o.has("<?"):
			it, err := o.misc()
			if err != nil {
				return err
			}
			e.Kids = append(e.Kids, it)
		case o.has("<"):
			k, err := o.element(e.Scope)
			if err != nil {
				return err
			}
			e.Kids = append(e.Kids, k)
		default:
			n := strings.IndexByte(o.s[o.i:], '<')
			if n < 0 {
				n = len(o.s) - o.i
			}
			raw := o.s[o.i : o.i+n]
			if strings.Contains(raw, "]]>") {
				return o.errorf("]]> in character data")
			}
			s, err := o.references(raw, false)
			if err != nil {
				return err
			}
			text(s)
			o.i += n
		}
	}
	return o.errorf("%s is not closed", e.As)
}

// decodeText turns octets into characters: BOM, then charset parameter, then
// declaration, then UTF-8. It also says what was used and whether the labels
// that are present agree with it.
func decodeText(b []byte, label string) (text, charset string, agree bool, err error) {
	declared := ""
	if rest, ok := bytes.CutPrefix(b, []byte("<?xml")); ok {
		d, _, _ := bytes.Cut(rest, []byte("?>"))
		if _, v, ok := strings.Cut(string(d), "encoding"); ok {
			v = strings.TrimLeft(v, " \t\r\n=")
			if v != "" {
				declared, _, _ = strings.Cut(v[1:], v[:1])
			}
		}
	}
	var enc encoding.Encoding
	switch {
	case bytes.HasPrefix(b, []byte("\xEF\xBB\xBF")):
		b, charset = b[3:], "utf-8"
	case bytes.HasPrefix(b, []byte("\xFF\xFE")):
		b, charset, enc = b[2:], "utf-16", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case bytes.HasPrefix(b, []byte("\xFE\xFF")):
		b, charset, enc = b[2:], "utf-16", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case label != "":
		charset = strings.ToLower(label)
	case declared != "":
		charset = strings.ToLower(declared)
	default:
		charset = "utf-8"
	}
	if enc == nil && charset != "utf-8" && charset != "us-ascii" {
		if enc, err = ianaindex.IANA.Encoding(charset); err != nil || enc == nil {
			return "", charset, false, fmt.Errorf("charset %q: %v", charset, err)
		}
	}
	if enc == nil {
		if !utf8.Valid(b) {
			return "", charset, false, fmt.Errorf("not UTF-8")
		}
		text = string(b)
	} else {
		u, err := enc.NewDecoder().Bytes(b)
		if err != nil {
			return "", charset, false, err
		}
		text = string(u)
	}
	if declared == "" && enc != nil {
		if t, perr := parseXML(text); perr == nil {
			declared = t.Declared
		}
	}
	same := func(l string) bool {
		return l == "" || strings.EqualFold(l, charset) || charset == "utf-16" && strings.HasPrefix(strings.ToLower(l), "utf-16")
	}
	return text, charset, same(label) && same(declared), nil
}

// param reads a parameter of a Content-Type as RFC 9110 §5.6.6 writes it.
func param(contentType, name string) (value string, ok bool) {
	_, rest, _ := strings.Cut(contentType, ";")
	for rest != "" {
		rest = strings.TrimLeft(rest, " \t;")
		n := strings.IndexAny(rest, "=;")
		if n < 0 {
			return "", false
		}
		key := strings.TrimSpace(rest[:n])
		if rest[n] == ';' {
			rest = rest[n:]
			continue
		}
		rest = rest[n+1:]
		var v string
		if strings.HasPrefix(rest, `"`) {
			i := 1
			for ; i < len(rest) && rest[i] != '"'; i++ {
				if rest[i] == '\\' && i+1 < len(rest) {
					i++
				}
				v += rest[i : i+1]
			}
			rest = rest[min(i+1, len(rest)):]
		} else {
			v, rest, _ = strings.Cut(rest, ";")
			v = strings.TrimSpace(v)
		}
		if strings.EqualFold(key, name) {
			return v, true
		}
	}
	return "", false
}

func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// document decodes and parses a body with its Content-Type.
func document(b []byte, contentType string) (*tree, error) {
	label, _ := param(contentType, "charset")
	text, _, _, err := decodeText(b, label)
	if err != nil {
		return nil, err
	}
	return parseXML(text)
}

// sameInfoset fails t unless both bodies have equal infosets: elements,
// attributes, text, comments and processing instructions in order, and the
// namespaces in scope of each element.
func sameInfoset(t testing.TB, what string, got []byte, gotType string, want []byte, wantType string) {
	t.Helper()
	g, err := document(got, gotType)
	if err != nil {
		t.Errorf("%s: %v\n%.600q", what, err, got)
		return
	}
	w, err := document(want, wantType)
	if err != nil {
		t.Fatalf("%s: the input itself: %v", what, err)
	}
	if gd, wd := dump(g.Root, nil), dump(w.Root, nil); gd != wd {
		t.Errorf("%s: infosets differ\n--- got\n%.3000s--- want\n%.3000s", what, gd, wd)
	}
}
