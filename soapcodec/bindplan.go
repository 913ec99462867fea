package soapcodec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// bindMode says what of an element a field stands for.
type bindMode uint8

const (
	bindElement bindMode = iota
	bindAttr
	bindText
	bindCDATA
	bindInner
	bindComment
	bindAny
	bindAnyAttr
)

// bindField is one field of a struct, or of a struct embedded in it.
type bindField struct {
	index []int
	name  string // of the field in Go
	mode  bindMode
	typ   reflect.Type

	local   string
	space   string
	exact   bool     // the name is in space and nowhere else, also where that is ""
	parents []string // the elements around it, outermost first

	omitEmpty, nillable bool
}

// matches reports whether an element or attribute of that name is the field's.
// A tag without a namespace means the name in any.
func (f *bindField) matches(space []byte) bool { return !f.exact || string(space) == f.space }

// bindPlan is what the tags of a struct type say. It is computed once for each
// type and never changes.
type bindPlan struct {
	xmlName *bindField // the XMLName field, or nil; local may be "" there
	fields  []bindField

	attrs   []*bindField
	text    []*bindField // chardata and cdata
	inner   *bindField
	comment *bindField
	any     *bindField
	anyAttr *bindField
	root    bindNode
}

// bindNode is an element on the way to fields: the struct's own, or one that a
// path names. Its edges are the children that mean something.
type bindNode struct{ edges map[string][]bindEdge }

type bindEdge struct {
	field *bindField // of a leaf
	node  *bindNode  // of an element on the way
	space string
	exact bool
}

func (n *bindNode) edge(space, local []byte) *bindEdge {
	edges := n.edges[string(local)]
	for i := range edges {
		if e := &edges[i]; !e.exact || string(space) == e.space {
			return e
		}
	}
	return nil
}

var (
	bindPlans         sync.Map // reflect.Type to *bindPlan or error
	errTagModes       = errors.New("the tag has flags that exclude each other")
	errTagName        = errors.New("the tag has a name that its flags do not allow")
	errTagOmit        = errors.New("omitempty is for elements and attributes, nillable for elements")
	errTagSpace       = errors.New("the tag has a namespace and no name, or is said to have none")
	errTagPath        = errors.New("the path in the tag is not names with '>' between")
	errTagXMLName     = errors.New("XMLName must be a QName, or a struct like it, and its tag a name")
	errTagTwice       = errors.New("two fields have the same name")
	errTagOther       = errors.New("the tag's name is not that of the type's XMLName")
	errTagAnyAttr     = errors.New("a field for any attribute must be a BindAttr, or a struct like it, or a slice of these")
	errTagInner       = errors.New("the field must be a string or a []byte")
	errTagEmbedded    = errors.New("an embedded pointer to an unexported struct can't be set")
	errTagUnsupported = errors.New("the type has no form in XML")
	errTagXMLMethods  = errors.New("the type has methods of encoding/xml, which are not called here: give it MarshalText and UnmarshalText or fields")
)

// planOf returns the plan of a struct type.
func planOf(t reflect.Type) (*bindPlan, error) {
	if p, ok := bindPlans.Load(t); ok {
		if err, bad := p.(error); bad {
			return nil, err
		}
		return p.(*bindPlan), nil
	}
	p, err := newPlan(t, nil)
	if err != nil {
		bindPlans.Store(t, err)
		return nil, err
	}
	p.index()
	bindPlans.Store(t, p)
	return p, nil
}

// newPlan reads the tags of t. around are the struct types it is embedded in.
func newPlan(t reflect.Type, around []reflect.Type) (*bindPlan, error) {
	p := &bindPlan{}
	if slices.Contains(around, t) {
		return p, nil // an embedded pointer to itself adds nothing
	}
	xmlName, err := xmlNameOf(t)
	if err != nil {
		return nil, err
	}
	p.xmlName = xmlName
	for f := range t.Fields() {
		tag := f.Tag.Get("xml")
		if tag == "-" || !f.IsExported() && !f.Anonymous || f.Name == "XMLName" {
			continue
		}
		if f.Anonymous {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && !isTextual(inner) {
				if err := p.embed(f, inner, append(around, t)); err != nil {
					return nil, err
				}
				continue
			}
			if !f.IsExported() {
				continue
			}
		}
		field, err := newField(t, &f, tag, p.xmlName)
		if err != nil {
			return nil, &BindError{Field: t.String() + "." + f.Name, Err: err}
		}
		if err := p.add(*field); err != nil {
			return nil, &BindError{Field: t.String() + "." + f.Name, Err: err}
		}
	}
	return p, nil
}

// embed adds the fields of the struct type inner, which f embeds.
func (p *bindPlan) embed(f reflect.StructField, inner reflect.Type, around []reflect.Type) error {
	sub, err := newPlan(inner, around)
	if err != nil {
		return err
	}
	if f.Type.Kind() == reflect.Pointer && !f.IsExported() && (len(sub.fields) > 0 || sub.xmlName != nil) {
		return &BindError{Field: around[len(around)-1].String() + "." + f.Name, Err: errTagEmbedded}
	}
	prepend := func(g bindField) bindField {
		g.index = append(slices.Clone(f.Index), g.index...)
		return g
	}
	if p.xmlName == nil && sub.xmlName != nil {
		name := prepend(*sub.xmlName)
		p.xmlName = &name
	}
	for _, g := range sub.fields {
		if g.mode == bindElement && !g.exact && p.xmlName != nil && p.xmlName.exact {
			g.space, g.exact = p.xmlName.space, true // as for the fields beside it
		}
		if err := p.add(prepend(g)); err != nil {
			return &BindError{Field: around[len(around)-1].String() + "." + f.Name + "." + g.name, Err: err}
		}
	}
	return nil
}

// add adds a field. Of two that mean the same the one that is less deeply
// embedded counts; two of one depth are an error.
func (p *bindPlan) add(f bindField) error {
	var rivals []int
	for i := range p.fields {
		if p.fields[i].rivals(&f) {
			rivals = append(rivals, i)
		}
	}
	for _, i := range rivals {
		switch g := &p.fields[i]; {
		case len(g.index) < len(f.index):
			return nil
		case len(g.index) == len(f.index):
			return errTagTwice
		}
	}
	for _, i := range slices.Backward(rivals) {
		p.fields = slices.Delete(p.fields, i, i+1)
	}
	p.fields = append(p.fields, f)
	return nil
}

// rivals reports whether an element or attribute could belong to f and to g.
func (f *bindField) rivals(g *bindField) bool {
	if f.mode != g.mode {
		return false
	}
	if f.mode != bindElement && f.mode != bindAttr {
		return true
	}
	if f.exact && g.exact && f.space != g.space {
		return false
	}
	short, long := f, g
	if len(short.parents) > len(long.parents) {
		short, long = long, short
	}
	if !slices.Equal(short.parents, long.parents[:len(short.parents)]) {
		return false
	}
	if len(short.parents) < len(long.parents) {
		return long.parents[len(short.parents)] == short.local
	}
	return f.local == g.local
}

// xmlNameOf reads the XMLName field of t, if it has one of its own.
func xmlNameOf(t reflect.Type) (*bindField, error) {
	f, ok := t.FieldByName("XMLName")
	if !ok || len(f.Index) != 1 || f.Tag.Get("xml") == "-" {
		return nil, nil
	}
	out := &bindField{index: f.Index, name: f.Name, typ: f.Type}
	tag := out.setSpace(f.Tag.Get("xml"))
	local, flags, _ := strings.Cut(tag, ",")
	if err := out.setSoap(f.Tag.Get("soap")); err != nil {
		return nil, &BindError{Field: t.String() + ".XMLName", Err: err}
	}
	if !f.Type.ConvertibleTo(qnameType) || f.Type.Kind() != reflect.Struct || strings.Contains(local, ">") || flags != "" && flags != "omitempty" {
		return nil, &BindError{Field: t.String() + ".XMLName", Err: errTagXMLName}
	}
	if out.exact && local == "" {
		return nil, &BindError{Field: t.String() + ".XMLName", Err: errTagSpace}
	}
	out.local = local
	return out, nil
}

// setSpace takes the namespace off a tag.
func (f *bindField) setSpace(tag string) string {
	if space, rest, ok := strings.Cut(tag, " "); ok {
		f.space, f.exact = space, space != ""
		return rest
	}
	return tag
}

// newField reads the tag of a field of the struct type t, which is named by
// around.
func newField(t reflect.Type, sf *reflect.StructField, tag string, around *bindField) (*bindField, error) {
	f := &bindField{index: sf.Index, name: sf.Name, typ: sf.Type}
	tag = f.setSpace(tag)
	path, flags, _ := strings.Cut(tag, ",")
	if err := f.setMode(flags); err != nil {
		return nil, err
	}
	if err := f.setSoap(sf.Tag.Get("soap")); err != nil {
		return nil, err
	}
	if f.mode != bindElement && f.mode != bindAttr {
		if path != "" || f.exact {
			return nil, errTagName
		}
		return f, f.checkType()
	}
	if f.space != "" && path == "" {
		return nil, errTagSpace
	}
	if path == "" {
		if err := f.defaultName(sf); err != nil {
			return nil, err
		}
	} else if err := f.setPath(path, sf.Name); err != nil {
		return nil, err
	}
	if f.mode == bindElement && !f.exact && around != nil && around.exact {
		// Children are in the namespace of their parent, unless they say otherwise.
		f.space, f.exact = around.space, true
	}
	return f, f.checkType()
}

// setMode reads the flags behind the name.
func (f *bindField) setMode(flags string) error {
	modes := 0
	isAny, isAttr := false, false
	for flag := range strings.SplitSeq(flags, ",") {
		mode := bindElement
		switch flag {
		case "":
			continue
		case "omitempty":
			f.omitEmpty = true
			continue
		case "attr":
			isAttr, mode = true, bindAttr
		case "any":
			isAny, mode = true, bindAny
		case "chardata":
			mode = bindText
		case "cdata":
			mode = bindCDATA
		case "innerxml":
			mode = bindInner
		case "comment":
			mode = bindComment
		default:
			return unknownFlag(flag)
		}
		f.mode = mode
		modes++
	}
	switch {
	case isAny && isAttr && modes == 2:
		f.mode = bindAnyAttr
	case modes > 1:
		return errTagModes
	}
	if f.omitEmpty && f.mode != bindElement && f.mode != bindAttr && f.mode != bindAny {
		return errTagOmit
	}
	return nil
}

// setSoap reads our own flags, which have a tag of their own since tools know
// those of the xml tag.
func (f *bindField) setSoap(tag string) error {
	for flag := range strings.SplitSeq(tag, ",") {
		switch flag {
		case "":
		case "nillable":
			if f.mode != bindElement {
				return errTagOmit
			}
			f.nillable = true
		case "unqualified":
			if f.exact || f.mode != bindElement && f.mode != bindAttr {
				return errTagSpace
			}
			f.exact = true
		default:
			return unknownFlag(flag)
		}
	}
	return nil
}

func unknownFlag(flag string) error {
	return fmt.Errorf("the tag has an unknown flag %s", quoteCut(flag))
}

// defaultName is that of the field's type, if it has an XMLName, else of the
// field.
func (f *bindField) defaultName(sf *reflect.StructField) error {
	f.local = sf.Name
	if f.mode != bindElement {
		return nil
	}
	name, err := elementName(f.typ)
	if err != nil || name == nil || name.local == "" {
		return err
	}
	f.local = name.local
	if !f.exact {
		f.space, f.exact = name.space, name.exact
	}
	return nil
}

// setPath reads the name, or the path, in the tag.
func (f *bindField) setPath(path, name string) error {
	f.parents = strings.Split(path, ">")
	if f.parents[0] == "" {
		f.parents[0] = name
	}
	last := len(f.parents) - 1
	f.local = f.parents[last]
	f.parents = f.parents[:last]
	if f.local == "" || slices.Contains(f.parents, "") || last > 0 && f.mode != bindElement {
		return errTagPath
	}
	if f.mode != bindElement {
		return nil
	}
	own, err := elementName(f.typ)
	if err != nil {
		return err
	}
	if own != nil && own.local != "" && own.local != f.local {
		return errTagOther
	}
	if own != nil && own.exact && !f.exact && own.local != "" {
		f.space, f.exact = own.space, true
	}
	return nil
}

// elementName returns the XMLName of the struct type that a field's type leads
// to, or nil.
func elementName(t reflect.Type) (*bindField, error) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isTextual(t) {
		return nil, nil
	}
	return xmlNameOf(t)
}

// index sorts the fields by what they stand for.
func (p *bindPlan) index() {
	p.root.edges = map[string][]bindEdge{}
	for i := range p.fields {
		f := &p.fields[i]
		switch f.mode {
		case bindElement:
			node := &p.root
			for _, parent := range f.parents {
				node = node.step(parent, f)
			}
			node.edges[f.local] = append(node.edges[f.local], bindEdge{field: f, space: f.space, exact: f.exact})
		case bindAttr:
			p.attrs = append(p.attrs, f)
		case bindText, bindCDATA:
			p.text = append(p.text, f)
		case bindInner:
			p.inner = f
		case bindComment:
			p.comment = f
		case bindAny:
			p.any = f
		case bindAnyAttr:
			p.anyAttr = f
		}
	}
}

// step returns the node of an element on the way to f, whose namespace is also
// that of the elements around it.
func (n *bindNode) step(local string, f *bindField) *bindNode {
	for _, e := range n.edges[local] {
		if e.node != nil && e.exact == f.exact && e.space == f.space {
			return e.node
		}
	}
	to := &bindNode{edges: map[string][]bindEdge{}}
	n.edges[local] = append(n.edges[local], bindEdge{node: to, space: f.space, exact: f.exact})
	return to
}
