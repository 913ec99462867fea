package soapcodec

import (
	"reflect"

	"soapway/xmlstream"
)

// bindReader decodes elements of a document that its scanner reads. The document
// has been checked before, so errors of the scanner do not come; if they do, they
// go up as they are.
type bindReader struct {
	s       *xmlstream.Scanner
	room    int // octets that values may still take
	text    []byte
	holders []*innerHolder // the elements whose octets are being kept, outermost first
}

// innerHolder keeps the content of an element at that depth, complete by itself:
// its children declare what is in force around them.
type innerHolder struct {
	p     *xmlstream.Printer
	depth int
}

func newBindReader(s *xmlstream.Scanner, octets int) *bindReader {
	return &bindReader{s: s, room: leastBindRoom + bindRoom*octets}
}

// root decodes the element at whose start tag the scanner stands.
func (r *bindReader) root(v reflect.Value) error {
	t := v.Type()
	if err := r.element(v, nil); err != nil {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		name := t.Name()
		if name == "" {
			name = t.String()
		}
		return within(name, err)
	}
	return nil
}

// next is the scanner's Next, with a copy to those who keep octets.
func (r *bindReader) next() (xmlstream.Kind, error) {
	kind, err := r.s.Next()
	if err != nil {
		return kind, err
	}
	for _, h := range r.holders {
		if kind == xmlstream.End && r.s.Depth() == h.depth {
			h.p.End()
			continue
		}
		if err := r.take(len(r.s.Raw())); err != nil {
			return kind, err
		}
		h.p.Raw(r.s)
	}
	return kind, nil
}

// fail makes the error for a value at the current token.
func (r *bindReader) fail(reason error) error { return &BindError{Err: r.s.Fault(reason)} }

// take accounts for n octets of values.
func (r *bindReader) take(n int) error {
	if r.room -= n; r.room < 0 {
		return r.fail(errTooMuch)
	}
	return nil
}

// element decodes the element at whose start tag the scanner stands into v, and
// leaves it at the end tag. field is nil for the root.
func (r *bindReader) element(v reflect.Value, field *bindField) error {
	if v.Kind() == reflect.Slice && classOf(v.Type()) == classList {
		return r.more(v, field)
	}
	if r.isNil() {
		v.SetZero()
		return r.skip()
	}
	for steps := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; steps++ {
		if steps > maxBindDepth {
			return r.fail(errTooDeep) // a pointer to itself
		}
		if v.Kind() == reflect.Interface {
			if e := v.Elem(); e.Kind() == reflect.Pointer && !e.IsNil() {
				v = e.Elem()
				continue
			}
			return r.fail(errNoFace)
		}
		if v.IsNil() {
			if err := r.take(int(v.Type().Elem().Size())); err != nil {
				return err
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	switch classOf(v.Type()) {
	case classTextual, classScalar:
		return r.scalar(v)
	case classStruct:
		return r.structure(v)
	case classList:
		return r.more(v, field)
	case classMethods:
		return r.fail(errTagXMLMethods)
	}
	return r.fail(errTagUnsupported)
}

// more appends an element to the slice v.
func (r *bindReader) more(v reflect.Value, field *bindField) error {
	if field == nil {
		return r.fail(errNotOne)
	}
	if err := r.take(int(v.Type().Elem().Size())); err != nil {
		return err
	}
	n := v.Len()
	v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	if err := r.element(v.Index(n), field); err != nil {
		v.SetLen(n)
		return err
	}
	return nil
}

// isNil reports whether the element says xsi:nil (XML Schema Part 1 §2.6.2).
func (r *bindReader) isNil() bool {
	attrs := r.s.Attrs()
	for i := range attrs {
		if a := &attrs[i]; a.Name.Is(nsXSI, "nil") {
			r.text = a.AppendValue(r.text[:0])
			value := string(trim(r.text))
			return value == "true" || value == "1"
		}
	}
	return false
}

// skip moves to the end tag of the element.
func (r *bindReader) skip() error {
	for depth := r.s.Depth(); ; {
		kind, err := r.next()
		if err != nil {
			return err
		}
		if kind == xmlstream.End && r.s.Depth() == depth {
			return nil
		}
	}
}

// scalar decodes an element without regard to elements in it.
func (r *bindReader) scalar(v reflect.Value) error {
	r.text = r.text[:0]
	for depth := r.s.Depth(); ; {
		kind, err := r.next()
		if err != nil {
			return err
		}
		switch kind {
		case xmlstream.Text, xmlstream.CDATA:
			r.text = r.s.AppendText(r.text)
		case xmlstream.Start:
			if err := r.skip(); err != nil {
				return err
			}
		case xmlstream.End:
			if r.s.Depth() == depth {
				return r.set(v, r.text)
			}
		}
	}
}

// set stores text, of which the current token is the last.
func (r *bindReader) set(v reflect.Value, text []byte) error {
	if err := setText(v, text); err != nil {
		return r.fail(badValue{quoteCut(string(cutBytes(text, maxQuoted+1))), err})
	}
	return nil
}

// badValue is a reason with the text that gave it.
type badValue struct {
	text   string
	reason error
}

func (e badValue) Error() string { return e.text + ": " + e.reason.Error() }
func (e badValue) Unwrap() error { return e.reason }

// structure decodes an element with fields.
func (r *bindReader) structure(v reflect.Value) error {
	plan, err := planOf(v.Type())
	if err != nil {
		return err
	}
	if f := plan.xmlName; f != nil {
		name := r.s.Name()
		if f.local != "" && (f.local != string(name.Local) || !f.matches(name.Space)) {
			want := f.local
			if f.exact {
				want = QName{f.space, f.local}.String()
			}
			return within(f.name, r.fail(badValue{quoteCut(name.String()), otherName{want}}))
		}
		q := reflect.ValueOf(QName{Space: string(name.Space), Local: string(name.Local)})
		if to, err := r.fieldOf(v, f); err != nil {
			return err
		} else {
			to.Set(q.Convert(f.typ))
		}
	}
	if err := r.attributes(v, plan); err != nil {
		return err
	}
	b := structReader{bindReader: r, v: v, plan: plan}
	if plan.inner != nil {
		h := &innerHolder{p: xmlstream.NewPrinter(), depth: r.s.Depth()}
		h.p.Start("", innerWrapper, "")
		r.holders = append(r.holders, h)
		defer func() { r.holders = r.holders[:len(r.holders)-1] }()
		if err := b.children(&plan.root, true); err != nil {
			return err
		}
		return b.keepInner(h)
	}
	return b.children(&plan.root, true)
}

// otherName says which name was expected.
type otherName struct{ want string }

func (e otherName) Error() string { return errOtherName.Error() + ": " + quoteCut(e.want) }
func (e otherName) Unwrap() error { return errOtherName }

// innerWrapper is the root around what innerHolder keeps.
const innerWrapper = "w"

// fieldOf returns a field of v and makes the structs on the way to it.
func (r *bindReader) fieldOf(v reflect.Value, f *bindField) (reflect.Value, error) {
	for i, k := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if err := r.take(int(v.Type().Elem().Size())); err != nil {
					return v, err
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(k)
	}
	return v, nil
}

// attributes decodes the attributes of the current tag.
func (r *bindReader) attributes(v reflect.Value, plan *bindPlan) error {
	if len(plan.attrs) == 0 && plan.anyAttr == nil {
		return nil
	}
	attrs := r.s.Attrs()
	for i := range attrs {
		a := &attrs[i]
		if a.IsNamespace() {
			continue
		}
		taken := false
		for _, f := range plan.attrs {
			if f.local != string(a.Name.Local) || !f.matches(a.Name.Space) {
				continue
			}
			if !f.exact && len(a.Name.Space) > 0 && hasPlain(attrs, a.Name.Local) {
				continue
			}
			taken = true
			to, err := r.fieldOf(v, f)
			if err != nil {
				return err
			}
			if err := r.attribute(to, a); err != nil {
				return within(f.name, err)
			}
		}
		if !taken && plan.anyAttr != nil {
			to, err := r.fieldOf(v, plan.anyAttr)
			if err != nil {
				return err
			}
			if err := r.anyAttribute(to, a); err != nil {
				return within(plan.anyAttr.name, err)
			}
		}
	}
	return nil
}

// hasPlain reports whether an attribute in no namespace has that name.
func hasPlain(attrs []xmlstream.Attr, local []byte) bool {
	for i := range attrs {
		if n := &attrs[i].Name; len(n.Space) == 0 && string(n.Local) == string(local) {
			return true
		}
	}
	return false
}

func (r *bindReader) attribute(v reflect.Value, a *xmlstream.Attr) error {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			if err := r.take(int(v.Type().Elem().Size())); err != nil {
				return err
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	r.text = a.AppendValue(r.text[:0])
	if err := r.take(len(r.text)); err != nil {
		return err
	}
	return r.set(v, r.text)
}

func (r *bindReader) anyAttribute(v reflect.Value, a *xmlstream.Attr) error {
	if v.Kind() == reflect.Slice {
		if err := r.take(int(v.Type().Elem().Size())); err != nil {
			return err
		}
		n := v.Len()
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		v = v.Index(n)
	}
	q := reflect.ValueOf(QName{Space: string(a.Name.Space), Local: string(a.Name.Local)})
	v.Field(0).Set(q.Convert(v.Field(0).Type()))
	v.Field(1).SetString(a.Value())
	return nil
}

// structReader decodes the content of an element into the fields of v.
type structReader struct {
	*bindReader
	v       reflect.Value
	plan    *bindPlan
	chars   []byte // for the chardata fields
	comment []byte
}

// children decodes the children of an element up to its end tag. outer is false
// for an element on a path, whose text belongs to nobody.
func (b *structReader) children(node *bindNode, outer bool) error {
	plan := b.plan
	for depth := b.s.Depth(); ; {
		kind, err := b.next()
		if err != nil {
			return err
		}
		switch kind {
		case xmlstream.Start:
			if err := b.child(node, outer); err != nil {
				return err
			}
		case xmlstream.Text, xmlstream.CDATA:
			if outer && len(plan.text) > 0 {
				b.chars = b.s.AppendText(b.chars)
			}
		case xmlstream.Comment:
			if outer && plan.comment != nil {
				b.comment = b.s.AppendText(b.comment) // line ends, since a comment has no references
			}
		case xmlstream.End:
			if b.s.Depth() != depth {
				continue
			}
			if outer {
				return b.finish()
			}
			return nil
		}
	}
}

// child decodes the element whose start tag is the current token.
func (b *structReader) child(node *bindNode, outer bool) error {
	name := b.s.Name()
	e := node.edge(name.Space, name.Local)
	var f *bindField
	switch {
	case e != nil && e.node != nil:
		return b.children(e.node, false)
	case e != nil:
		f = e.field
	case outer && b.plan.any != nil:
		f = b.plan.any
	default:
		return b.skip()
	}
	to, err := b.fieldOf(b.v, f)
	if err != nil {
		return err
	}
	if err := b.element(to, f); err != nil {
		return within(f.name, err)
	}
	return nil
}

// finish stores the text of the element.
func (b *structReader) finish() error {
	for _, f := range b.plan.text {
		to, err := b.fieldOf(b.v, f)
		if err != nil {
			return err
		}
		for to.Kind() == reflect.Pointer {
			if to.IsNil() {
				to.Set(reflect.New(to.Type().Elem()))
			}
			to = to.Elem()
		}
		if err := b.take(len(b.chars)); err != nil {
			return err
		}
		if err := b.set(to, b.chars); err != nil {
			return within(f.name, err)
		}
	}
	if f := b.plan.comment; f != nil {
		to, err := b.fieldOf(b.v, f)
		if err != nil {
			return err
		}
		return b.set(to, b.comment)
	}
	return nil
}

// keepInner stores the content that h has kept, of which the last token, the end
// tag, is not part.
func (b *structReader) keepInner(h *innerHolder) error {
	doc, err := h.p.Bytes()
	if err != nil {
		return err
	}
	const empty, open, closing = "<" + innerWrapper + "/>", "<" + innerWrapper + ">", "</" + innerWrapper + ">"
	if string(doc) == empty {
		doc = nil
	} else {
		doc = doc[len(open) : len(doc)-len(closing)]
	}
	to, err := b.fieldOf(b.v, b.plan.inner)
	if err != nil {
		return err
	}
	if to.Kind() == reflect.String {
		to.SetString(string(doc))
	} else {
		to.SetBytes(doc)
	}
	return nil
}
