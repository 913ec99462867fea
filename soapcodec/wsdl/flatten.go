package wsdl

import (
	"errors"
	"maps"
	"slices"

	"soapway/xmlstream"
)

// MaxFlat is how many octets [Flatten] makes at most.
const MaxFlat = 64 << 20

// ErrFlat says that the documents are larger than MaxFlat together, or that one has
// hundreds of thousands of parts.
var ErrFlat = errors.New("wsdl: flatten: the documents are too large for one")

// A Source is a document that is to be put together with those that it refers to.
type Source struct {
	Doc []byte // UTF-8
	// Target returns the document that a reference leads to, always the same for
	// the same one; nil for one that cannot be had.
	Target func(Ref) *Source
	// Map replaces the references that stay, as with [Rewrite].
	Map func(Ref) (string, bool)

	parts *outline
}

// Flatten makes one description of one and those that it imports or includes.
//
//   - A description with the same target namespace is put before the end of the
//     first one, but for its documentation. One with another stays an import,
//     since a description has one target namespace (WSDL 1.1 §2.1.1).
//   - Each schema becomes a schema element in types, and its import loses its
//     schemaLocation. An included schema becomes one beside the other: a namespace
//     may have several (XML Schema Part 1 §4.2), and each keeps its own defaults.
//     One without a namespace (chameleon) is given that of each that includes it.
//   - What is redefined or overridden stays a reference, as does what cannot be had, and a chameleon
//     that declares default namespaces in its midst.
//
// Elements keep their octets, but for the declarations of namespaces that they
// need in their new place, and for the references that Map replaces.
// Errors: *xmlstream.SyntaxError, *xmlstream.LimitError, [ErrFlat].
func Flatten(root *Source) ([]byte, error) {
	f := flattener{descriptions: map[*Source]bool{root: true}, schemas: map[schemaKey]bool{}}
	o, err := root.outline()
	if err != nil {
		return nil, err
	}
	if o.kind != WSDL11 && o.kind != WSDL20 {
		return Rewrite(nil, root.Doc, root.Map)
	}
	f.host = scope(o.root)
	if o.types != nil {
		f.hostTypes = scope(o.root, o.types)
	} else {
		f.hostTypes = f.host
	}
	edits, err := f.description(root, o)
	if err != nil {
		return nil, err
	}
	edits = append(edits, f.insertions(root.Doc, o)...)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	return splice(make([]byte, 0, len(root.Doc)+len(f.types)+len(f.rest)), root.Doc, 0, len(root.Doc), edits), nil
}

// outline takes the document apart once.
func (s *Source) outline() (*outline, error) {
	var err error
	if s.parts == nil {
		s.parts, err = outlineOf(s.Doc)
	}
	return s.parts, err
}

type flattener struct {
	descriptions map[*Source]bool // that are put in, or are being
	schemas      map[schemaKey]bool

	host, hostTypes map[string]string // namespaces where what follows will stand
	types           []byte            // schemas to be added
	rest            []byte            // other elements to be added
}

// schemaKey is a schema document, and the namespace that it gets.
type schemaKey struct {
	source *Source
	target string
}

// insertions are the edits that put what was gathered into the first document.
func (f *flattener) insertions(doc []byte, o *outline) (edits []edit) {
	if len(f.rest) > 0 {
		edits = append(edits, edit{o.root.close, o.root.close, string(f.rest)})
	}
	if len(f.types) == 0 {
		return edits
	}
	if t := o.types; t != nil {
		if !t.selfClosing() {
			return append(edits, edit{t.close, t.close, string(f.types)})
		}
		return append(edits, edit{t.end - 2, t.end, ">" + string(f.types) + "</" + string(doc[t.start+1:t.name]) + ">"})
	}
	at := o.root.close
	for _, c := range o.children { // behind imports: BP 1.1 R2023
		if !o.describes(c) || c.local != "documentation" && c.local != "import" && c.local != "include" {
			at = c.start
			break
		}
	}
	return slices.Insert(edits, 0, edit{at, at, "<" + o.prefix + "types>" + string(f.types) + "</" + o.prefix + "types>\n"})
}

// description returns the edits of a description, and gathers what it refers to.
func (f *flattener) description(s *Source, o *outline) (edits []edit, err error) {
	for i := range o.places {
		p := &o.places[i]
		var own *element
		for _, e := range o.schemas {
			if e.contains(p.start) {
				own = e
			}
		}
		var e []edit
		switch {
		case p.Use == Import && p.of != nil:
			e, err = f.imported(s, o, p)
		case p.Use == Schema && p.of != nil && own != nil:
			e, err = f.referred(s, p, own.target)
		default:
			e = stays(s, p)
		}
		if err != nil {
			return nil, err
		}
		edits = append(edits, e...)
	}
	return edits, nil
}

// stays is the edit of a reference that stays one.
func stays(s *Source, p *placed) []edit {
	if value, ok := s.Map(p.Ref); ok {
		return []edit{p.with(value)}
	}
	return nil
}

// imported puts in what an import or include of a description leads to.
func (f *flattener) imported(s *Source, o *outline, p *placed) ([]edit, error) {
	t := s.Target(p.Ref)
	if t == nil {
		return stays(s, p), nil
	}
	to, err := t.outline()
	if err != nil {
		return nil, err
	}
	gone := []edit{{p.of.start, p.of.end, ""}}
	switch {
	case to.kind == XMLSchema: // which many do, though BP 1.1 R2001 forbids it
		return gone, f.schema(t, to, to.root.target)
	case to.kind != o.kind || to.root.target != o.root.target:
		return stays(s, p), nil
	case f.descriptions[t]:
		return gone, nil
	}
	f.descriptions[t] = true
	edits, err := f.description(t, to)
	if err != nil {
		return nil, err
	}
	for _, c := range to.children {
		switch {
		case to.describes(c) && (c.local == "documentation" || c.local == "import" || c.local == "include"):
		case c == to.types:
			for _, e := range to.schemas {
				f.types = f.copied(f.types, t.Doc, e, scope(to.root, to.types), f.hostTypes, edits, "")
			}
		default:
			f.rest = f.copied(f.rest, t.Doc, c, scope(to.root), f.host, edits, "")
		}
		if len(f.types)+len(f.rest) > MaxFlat {
			return nil, ErrFlat
		}
	}
	return gone, nil
}

// referred puts in what a schema with this target namespace refers to.
func (f *flattener) referred(s *Source, p *placed, target string) ([]edit, error) {
	t := s.Target(p.Ref)
	if t == nil {
		return stays(s, p), nil
	}
	to, err := t.outline()
	if err != nil {
		return nil, err
	}
	switch {
	case to.kind != XMLSchema:
	case p.of.local == "import" && p.of.namespace == to.root.target:
		return []edit{p.without(s.Doc)}, f.schema(t, to, to.root.target)
	case p.of.local == "include" && (to.root.target == target || to.root.target == "" && to.chameleon()):
		return []edit{{p.of.start, p.of.end, ""}}, f.schema(t, to, target)
	}
	return stays(s, p), nil
}

// chameleon reports whether a schema without a namespace can be given one by what
// is added to its first tag: names without a prefix are in the default namespace.
func (o *outline) chameleon() bool { return o.defaults == 0 && !o.root.targeted }

// schema puts in a schema document, with the namespace that it has or gets.
func (f *flattener) schema(s *Source, o *outline, target string) error {
	key := schemaKey{s, target}
	if f.schemas[key] {
		return nil
	}
	f.schemas[key] = true
	var edits []edit
	for i := range o.places {
		p := &o.places[i]
		e := stays(s, p)
		if p.Use == Schema && p.of != nil {
			var err error
			if e, err = f.referred(s, p, target); err != nil {
				return err
			}
		}
		edits = append(edits, e...)
	}
	more, around := "", map[string]string{}
	if target != o.root.target {
		more = attribute("targetNamespace", target)
		if _, ok := o.root.declared[""]; !ok {
			around[""] = target
			for _, n := range o.notes { // what is in them keeps its names
				edits = append(edits, edit{n.name, n.name, ` xmlns=""`})
			}
			slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
		}
	}
	f.types = f.copied(f.types, s.Doc, o.root, around, f.hostTypes, edits, more)
	if len(f.types)+len(f.rest) > MaxFlat {
		return ErrFlat
	}
	return nil
}

// copied appends an element with edits in it, more attributes, and the namespaces
// that were declared around it where they differ from those of its new place.
func (f *flattener) copied(dst, doc []byte, e *element, from, host map[string]string, edits []edit, more string) []byte {
	for _, prefix := range slices.Sorted(maps.Keys(from)) {
		if _, own := e.declared[prefix]; !own && host[prefix] != from[prefix] && prefix != "" {
			more += attribute("xmlns:"+prefix, from[prefix])
		}
	}
	if _, own := e.declared[""]; !own && host[""] != from[""] {
		more += attribute("xmlns", from[""])
	}
	dst = append(dst, '\n')
	dst = append(append(dst, doc[e.start:e.name]...), more...)
	return splice(dst, doc, e.name, e.end, edits)
}

func attribute(name, value string) string {
	return " " + name + `="` + string(xmlstream.AppendEscapedAttr(nil, value)) + `"`
}
