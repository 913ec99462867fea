package soapcodec

import (
	"bytes"
	"io"
	"reflect"
	"strings"

	"soapway/xmlstream"
)

// bindWriter encodes values as elements.
type bindWriter struct {
	p    *xmlstream.Printer
	s    *xmlstream.Scanner // of innerxml
	deep int                // values around the current one
}

// bindName is the name of an element that is to be written.
type bindName struct{ space, local string }

// root encodes a value as one element.
func (w *bindWriter) root(value any) error {
	v := reflect.ValueOf(value)
	err := w.element(v, nil, bindName{})
	if err == nil {
		err = w.p.Err()
	}
	if _, ours := err.(*BindError); err != nil {
		if !ours {
			err = &BindError{Err: err}
		}
		t := reflect.TypeOf(value)
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil {
			return err
		}
		return within(t.Name(), err)
	}
	return nil
}

// element encodes v as the element of field, which is nil for the root, inside
// the element around.
func (w *bindWriter) element(v reflect.Value, field *bindField, around bindName) error {
	if w.deep++; w.deep > maxBindDepth {
		return &BindError{Err: errTooDeep}
	}
	defer func() { w.deep-- }()
	for steps := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; steps++ {
		if steps > maxBindDepth {
			return &BindError{Err: errTooDeep} // a pointer to itself
		}
		if v.IsNil() {
			if field == nil {
				return &BindError{Err: errNotOne}
			}
			return w.null(field, around)
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return &BindError{Err: errNotOne}
	}
	t := v.Type()
	switch classOf(t) {
	case classMethods:
		return &BindError{Err: errTagXMLMethods}
	case classList:
		if field == nil {
			return &BindError{Err: errNotOne}
		}
		for i := range v.Len() {
			if err := w.element(v.Index(i), field, around); err != nil {
				return err
			}
		}
		return nil
	case classStruct:
		return w.structure(v, field, around)
	}
	text, err := textOf(v)
	if err != nil {
		return &BindError{Err: err}
	}
	name, err := nameFor(t, field, around)
	if err != nil {
		return err
	}
	w.p.Start("", name.local, name.space)
	w.p.Text(text)
	w.p.End()
	return w.printed()
}

// printed is the printer's error as one of a field.
func (w *bindWriter) printed() error {
	if err := w.p.Err(); err != nil {
		return &BindError{Err: err}
	}
	return nil
}

// null writes what a nil pointer is: nothing, or an element that says so.
func (w *bindWriter) null(field *bindField, around bindName) error {
	if !field.nillable {
		return nil
	}
	name := field.elementName(around)
	w.p.Start("", name.local, name.space)
	w.p.Attr("xsi", "nil", nsXSI, "true")
	w.p.End()
	return w.printed()
}

// elementName is the name of the field's element. One whose tag has no namespace
// is in that of the element around.
func (f *bindField) elementName(around bindName) bindName {
	if f.exact {
		return bindName{f.space, f.local}
	}
	return bindName{around.space, f.local}
}

// nameFor returns the name of a value that has none of its own.
func nameFor(t reflect.Type, field *bindField, around bindName) (bindName, error) {
	if field != nil && field.local != "" {
		return field.elementName(around), nil
	}
	name, _, _ := strings.Cut(t.Name(), "[") // what a type is made with is no part of it
	if name == "" {
		return bindName{}, &BindError{Err: errNoName}
	}
	return bindName{around.space, name}, nil
}

// structName returns the name of a struct: what its XMLName holds, else what the
// tag of that says, else what the field says, else that of the type.
func structName(v reflect.Value, plan *bindPlan, field *bindField, around bindName) (bindName, error) {
	if f := plan.xmlName; f != nil {
		var held QName
		if to, ok := fieldAt(v, f.index); ok {
			held = to.Convert(qnameType).Interface().(QName)
		}
		switch {
		case f.local == "" && held.Local != "":
			return bindName{held.Space, held.Local}, nil
		case f.local != "" && !f.exact && held.Local == f.local && held.Space != "":
			return bindName{held.Space, held.Local}, nil // as it was decoded
		case f.local != "":
			return f.elementName(around), nil
		}
	}
	return nameFor(v.Type(), field, around)
}

// fieldAt returns a field of v; false if an embedded pointer on the way is nil.
func fieldAt(v reflect.Value, index []int) (reflect.Value, bool) {
	for i, k := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(k)
	}
	return v, true
}

func (w *bindWriter) structure(v reflect.Value, field *bindField, around bindName) error {
	plan, err := planOf(v.Type())
	if err != nil {
		return err
	}
	name, err := structName(v, plan, field, around)
	if err != nil {
		return err
	}
	w.p.Start("", name.local, name.space)
	for i := range plan.fields {
		f := &plan.fields[i]
		if f.mode != bindAttr && f.mode != bindAnyAttr {
			continue
		}
		fv, ok := fieldAt(v, f.index)
		if !ok || f.omitEmpty && isEmpty(fv) {
			continue
		}
		if f.mode == bindAttr {
			err = w.attribute(fv, f)
		} else {
			err = w.anyAttributes(fv)
		}
		if err == nil {
			err = w.printed()
		}
		if err != nil {
			return within(f.name, err)
		}
	}
	open := path{w: w, names: []bindName{name}}
	for i := range plan.fields {
		f := &plan.fields[i]
		fv, ok := fieldAt(v, f.index)
		if !ok || f.mode == bindAttr || f.mode == bindAnyAttr {
			continue
		}
		if err := w.content(fv, f, &open); err != nil {
			return within(f.name, err)
		}
	}
	open.to(nil)
	w.p.End()
	return w.printed()
}

// content writes what a field is in the content of its struct's element.
func (w *bindWriter) content(v reflect.Value, f *bindField, open *path) error {
	switch f.mode {
	case bindElement, bindAny:
		if f.omitEmpty && isEmpty(v) {
			return nil
		}
		if k := v.Kind(); (k == reflect.Pointer || k == reflect.Interface) && v.IsNil() && !f.nillable {
			return nil
		}
		open.to(f)
		return w.element(v, f, open.names[len(open.names)-1])
	case bindText, bindCDATA:
		text, ok, err := textBehind(v)
		if !ok || err != nil {
			return err
		}
		open.to(nil)
		if f.mode == bindCDATA && text != "" {
			w.p.CDATA(text)
		} else {
			w.p.Text(text)
		}
	case bindComment:
		if v.Len() > 0 {
			open.to(nil)
			text, _ := textOf(v)
			w.p.Comment(text)
		}
	case bindInner:
		open.to(nil)
		text := v
		if v.Kind() == reflect.String {
			text = reflect.ValueOf([]byte(v.String()))
		}
		return w.inner(text.Bytes())
	}
	return w.printed()
}

// inner writes octets that are the content of an element, once they are known to
// be that by themselves.
func (w *bindWriter) inner(octets []byte) error {
	if len(octets) == 0 {
		return nil
	}
	if w.s == nil {
		w.s = xmlstream.NewScanner(xmlstream.Limits{})
	}
	w.s.Reset(io.MultiReader(
		bytes.NewReader([]byte("<"+innerWrapper+">")), bytes.NewReader(octets), bytes.NewReader([]byte("</"+innerWrapper+">"))))
	for {
		kind, err := w.s.Next()
		switch {
		case err == io.EOF:
			return w.printed()
		case err != nil:
			return &BindError{Err: badInner{err}}
		case w.s.Depth() == 1 && (kind == xmlstream.Start || kind == xmlstream.End):
			continue // the wrapper
		}
		w.p.Raw(w.s)
	}
}

// badInner tells why an innerxml is refused.
type badInner struct{ err error }

func (e badInner) Error() string   { return errFragment.Error() + ": " + detail(e.err) }
func (e badInner) Unwrap() []error { return []error{errFragment, e.err} }

func (w *bindWriter) attribute(v reflect.Value, f *bindField) error {
	text, ok, err := textBehind(v)
	if ok && err == nil {
		w.p.Attr(wishFor(f.space), f.local, f.space, text)
	}
	return err
}

// textBehind is textOf for what v points to; ok is false for nil.
func textBehind(v reflect.Value) (text string, ok bool, err error) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return "", false, nil
		}
		v = v.Elem()
	}
	if text, err = textOf(v); err != nil {
		return "", false, &BindError{Err: err}
	}
	return text, true, nil
}

// wishFor is a prefix that readers know a namespace by.
func wishFor(space string) string {
	if space == nsXSI {
		return "xsi"
	}
	return ""
}

func (w *bindWriter) anyAttributes(v reflect.Value) error {
	if v.Kind() != reflect.Slice {
		name := v.Field(0).Convert(qnameType).Interface().(QName)
		if name.Local != "" {
			w.p.Attr(wishFor(name.Space), name.Local, name.Space, v.Field(1).String())
		}
		return nil
	}
	for i := range v.Len() {
		if err := w.anyAttributes(v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// path holds the elements that are open between a struct's element, the first,
// and its fields': neighbours share them.
type path struct {
	w     *bindWriter
	names []bindName
}

// to opens and closes elements until those around f are open; nil means none.
func (o *path) to(f *bindField) {
	var parents []bindName
	if f != nil {
		for _, local := range f.parents {
			space := o.names[0].space
			if f.exact {
				space = f.space
			}
			parents = append(parents, bindName{space, local})
		}
	}
	same := 0
	for same < len(parents) && same+1 < len(o.names) && parents[same] == o.names[same+1] {
		same++
	}
	for len(o.names) > same+1 {
		o.w.p.End()
		o.names = o.names[:len(o.names)-1]
	}
	for _, name := range parents[same:] {
		o.w.p.Start("", name.local, name.space)
		o.names = append(o.names, name)
	}
}

// isEmpty is what omitempty leaves out: false, 0, nil, and what has no length.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
