package xmlstream

// Attr is one attribute of the current start tag, namespace declarations
// included. Its slices die at the next [Scanner.Next].
type Attr struct {
	Name   Name   // Space is that of xmlns for xmlns="…" and xmlns:p="…"
	Raw    []byte // the value as written, between the quotes
	Quote  byte   // the quote character used
	Offset int64  // stream offset of the name
	plain  bool   // Raw is the value: no reference, no white space but blanks
	xmlns  bool   // a namespace declaration
}

// IsNamespace reports whether a is a namespace declaration: xmlns="…" or
// xmlns:p="…".
func (a *Attr) IsNamespace() bool { return a.xmlns }

// AppendValue appends the normalized value: references replaced, literal
// white space turned into blanks (XML 1.0 §3.3.3).
func (a *Attr) AppendValue(dst []byte) []byte {
	if a.plain {
		return append(dst, a.Raw...)
	}
	return appendValue(dst, a.Raw)
}

// Value returns the normalized value; see [Attr.AppendValue].
func (a *Attr) Value() string {
	if a.plain {
		return string(a.Raw)
	}
	return string(appendValue(nil, a.Raw))
}

// attrSpan is an attribute while its tag is being scanned, by offsets from the
// token's start: the window may still move.
type attrSpan struct {
	name       span
	value, end int
	uri        int
	quote      byte
	plain      bool
	xmlns      bool
}

// startTag scans the tag at the window's start (XML 1.0 §3.1 [40], [44]).
func (s *Scanner) startTag() (Kind, error) {
	switch {
	case len(s.open) == 0 && s.rooted:
		return 0, s.fault(0, errSecondRoot)
	case len(s.open) >= s.lim.Depth:
		return 0, s.exceeded(0, limitDepth, int64(s.lim.Depth))
	case s.elements >= s.lim.Elements:
		return 0, s.exceeded(0, limitElements, s.lim.Elements)
	}
	name, err := s.qname(1)
	if err != nil {
		return 0, err
	}
	s.spans, s.blank = s.spans[:0], 0
	attributes, namespaces := 0, 0
	self := false
	i := name.end
	for {
		before := i
		c, err := s.blanks(&i)
		if err != nil {
			return 0, err
		}
		if c == '>' {
			break
		}
		if c == '/' {
			i++
			c, ok := s.at(i)
			if !ok {
				return 0, s.ended()
			}
			if c != '>' {
				return 0, s.fault(i, errTag)
			}
			self = true
			break
		}
		if i == before {
			if i == name.end {
				return 0, s.fault(i, errNameChar)
			}
			return 0, s.fault(i, errBlank)
		}
		s.spans = append(s.spans, attrSpan{plain: true})
		a := &s.spans[len(s.spans)-1]
		if a.name, err = s.qname(i); err != nil {
			return 0, err
		}
		if a.xmlns = isDeclaration(s.window(), a.name); a.xmlns {
			if namespaces++; namespaces > s.lim.Namespaces {
				return 0, s.exceeded(i, limitNamespaces, int64(s.lim.Namespaces))
			}
		} else if attributes++; attributes > s.lim.Attributes {
			return 0, s.exceeded(i, limitAttributes, int64(s.lim.Attributes))
		}
		if i, err = s.value(a); err != nil {
			return 0, err
		}
	}
	s.pos = s.tok + i + 1
	return Start, s.enter(name, self, namespaces)
}

// enter resolves the names of a start tag that is complete and opens its
// element. The window does not move any more.
func (s *Scanner) enter(name span, self bool, namespaces int) error {
	w := s.window()
	mark := len(s.scope.bindings)
	if len(s.spans) > 1 {
		if i := s.twins.find(s.seed, w, s.spans, false); i >= 0 {
			return s.fault(s.spans[i].name.start, ErrDuplicate)
		}
	}
	if namespaces > 0 {
		for i := range s.spans {
			if a := &s.spans[i]; a.xmlns {
				if err := s.declare(w, a); err != nil {
					return err
				}
			}
		}
	}
	uri, err := s.resolve(w, name)
	if err != nil {
		return err
	}
	prefixed := 0
	for i := range s.spans {
		a := &s.spans[i]
		switch {
		case a.xmlns:
			a.uri = xmlnsURI
		case a.name.prefixed():
			if a.uri, err = s.resolve(w, a.name); err != nil {
				return err
			}
			prefixed++
		}
	}
	if prefixed > 1 {
		if i := s.twins.find(s.seed, w, s.spans, true); i >= 0 {
			return s.fault(s.spans[i].name.start, errSameName)
		}
	}
	s.attrs = s.attrs[:0]
	s.pending = pendingNone
	if len(s.spans) > 0 {
		s.pending = pendingSpans
	}
	form := s.learn(w, name, self)
	s.forms.trail = uint(form)
	e := s.push()
	e.uri, e.mark, e.form = uri, mark, form
	e.name.start = len(s.names)
	e.name.colon = len(s.names) + name.colon - name.start
	s.names = append(s.names, w[name.start:name.end]...)
	e.name.end = len(s.names)
	s.elements++
	s.rooted, s.selfEnd = true, self
	s.lo, s.hi = s.pos, s.pos
	return nil
}

// Where the attributes of the current tag are until somebody asks for them.
const (
	pendingNone  = iota // nowhere, or made
	pendingSpans        // s.spans
	pendingForm         // the form of the current element, and s.ends
)

// Attrs returns the attributes of a Start token in document order, namespace
// declarations included.
func (s *Scanner) Attrs() []Attr {
	switch {
	case s.kind != Start:
		return nil
	case s.pending == pendingSpans:
		s.spanAttrs()
	case s.pending == pendingForm:
		s.formAttrs(&s.forms.list[s.open[len(s.open)-1].form])
	}
	s.pending = pendingNone
	return s.attrs
}

// roomFor gives s.attrs the length n.
func (s *Scanner) roomFor(n int) []Attr {
	if n <= cap(s.attrs) {
		s.attrs = s.attrs[:n]
	} else {
		s.attrs = make([]Attr, n, 2*n)
	}
	return s.attrs
}

// spanAttrs makes the attributes of the current tag what Attrs returns.
func (s *Scanner) spanAttrs() {
	w, attrs := s.window(), s.roomFor(len(s.spans))
	for i := range s.spans {
		a, to := &s.spans[i], &attrs[i]
		to.Name.Prefix = nil
		if a.name.prefixed() {
			to.Name.Prefix = w[a.name.start:a.name.colon:a.name.colon]
		}
		to.Name.Local = w[a.name.colon+1 : a.name.end : a.name.end]
		to.Name.Space = nil
		if a.uri != noURI {
			to.Name.Space = s.scope.uri(a.uri)
		}
		to.Raw = w[a.value:a.end:a.end]
		to.Quote = a.quote
		to.Offset = s.base + int64(s.tok+a.name.start)
		to.plain, to.xmlns = a.plain, a.xmlns
	}
}

// resolve returns the namespace of a name of the tag w. Unprefixed attributes
// have none and do not come here.
func (s *Scanner) resolve(w []byte, n span) (uri int, err error) {
	var prefix []byte
	if n.prefixed() {
		prefix = w[n.start:n.colon]
	}
	uri, ok := s.scope.lookup(prefix)
	switch {
	case !ok:
		return 0, s.fault(n.start, errUnbound)
	case uri == xmlnsURI:
		return 0, s.fault(n.start, errXMLNSPrefix)
	}
	return uri, nil
}

// isDeclaration reports whether n is xmlns or xmlns:p.
func isDeclaration(w []byte, n span) bool {
	if n.prefixed() {
		return string(w[n.start:n.colon]) == "xmlns"
	}
	return string(w[n.start:n.end]) == "xmlns"
}

// declare puts one namespace declaration in force (Namespaces in XML 1.0 §3,
// §5, "Reserved Prefixes and Namespace Names", "No Prefix Undeclaring").
func (s *Scanner) declare(w []byte, a *attrSpan) error {
	var prefix []byte
	if a.name.prefixed() {
		prefix = w[a.name.colon+1 : a.name.end]
	}
	uri := w[a.value:a.end]
	if !a.plain {
		s.scrap = appendValue(s.scrap[:0], uri)
		uri = s.scrap
	}
	switch {
	case string(prefix) == "xmlns":
		return s.fault(a.name.start, errXMLNSPrefix)
	case (string(prefix) == "xml") != (string(uri) == xmlSpace):
		return s.fault(a.name.start, errXMLPrefix)
	case string(uri) == xmlnsSpace:
		return s.fault(a.name.start, errXMLNSSpace)
	case len(uri) == 0 && len(prefix) > 0:
		return s.fault(a.name.start, errUndeclare)
	}
	s.scope.declare(prefix, uri)
	if len(s.scope.text) > s.inForce {
		return s.exceeded(a.name.start, limitScope, int64(s.inForce))
	}
	return nil
}

// blanks moves *i behind the white space there and returns the octet that
// follows. The white space of one tag is bounded together, as one value is.
func (s *Scanner) blanks(i *int) (byte, error) {
	if p := s.tok + *i; p < len(s.buf) && class[s.buf[p]]&blank == 0 {
		return s.buf[p], nil
	}
	for {
		c, ok := s.at(*i)
		switch {
		case !ok:
			return 0, s.ended()
		case class[c]&blank == 0:
			return c, nil
		case s.blank >= s.lim.AttributeValue:
			return 0, s.exceeded(*i, limitAttributeValue, int64(s.lim.AttributeValue))
		}
		s.blank++
		*i++
	}
}

// value scans from behind an attribute's name to behind its closing quote,
// whose index plus one it returns (XML 1.0 §2.3 [10], §3.1 [41]).
func (s *Scanner) value(a *attrSpan) (int, error) {
	i := a.name.end
	c, err := s.blanks(&i)
	if err != nil {
		return 0, err
	}
	if c != '=' {
		return 0, s.fault(i, errEquals)
	}
	i++
	if a.quote, err = s.blanks(&i); err != nil {
		return 0, err
	}
	stop, t := uint8(stopDouble), doubleNibbles
	switch a.quote {
	case '"':
	case '\'':
		stop, t = stopSingle, singleNibbles
	default:
		return 0, s.fault(i, errQuote)
	}
	i++
	a.value = i
	w := s.window()
	for {
		i = classStop(w, i, stop, t)
		if i-a.value > s.lim.AttributeValue {
			return 0, s.exceeded(a.value+s.lim.AttributeValue, limitAttributeValue, int64(s.lim.AttributeValue))
		}
		if i == len(w) {
			if !s.more() {
				return 0, s.ended()
			}
			w = s.window()
			continue
		}
		switch c := w[i]; {
		case c == a.quote:
			a.end = i
			return i + 1, nil
		case c == '\t' || c == '\n' || c == '\r':
			a.plain = false
			i++
		case c == '&':
			a.plain = false
			if i, err = s.reference(i); err != nil {
				return 0, err
			}
			w = s.window()
		case c == '<':
			return 0, s.fault(i, errLess)
		case c < 0x80:
			return 0, s.fault(i, ErrCharacter)
		default:
			_, n, err := s.rune(i)
			if err != nil {
				return 0, err
			}
			i += n
			w = s.window()
		}
	}
}

// endTag scans the tag at the window's start (XML 1.0 §3.1 [42]).
func (s *Scanner) endTag() (Kind, error) {
	var want []byte
	if len(s.open) > 0 {
		e := &s.open[len(s.open)-1]
		want = s.names[e.name.start:e.name.end]
		// The usual case: all there, and nothing but the name.
		w := s.window()
		if n := 2 + len(want); n < len(w) && w[n] == '>' && string(w[2:n]) == string(want) {
			s.pos = s.tok + n + 1
			s.lo, s.hi = s.pos, s.pos
			return End, nil
		}
	}
	name, err := s.qname(2)
	if err != nil {
		return 0, err
	}
	if string(s.window()[name.start:name.end]) != string(want) {
		if want == nil {
			return 0, s.fault(0, errStrayEnd)
		}
		return 0, s.fault(0, ErrMismatch)
	}
	i := name.end
	s.blank = 0
	c, err := s.blanks(&i)
	if err != nil {
		return 0, err
	}
	if c != '>' {
		return 0, s.fault(i, errTag)
	}
	s.pos = s.tok + i + 1
	s.lo, s.hi = s.pos, s.pos
	return End, nil
}
