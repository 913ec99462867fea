package soapcodec

import (
	"encoding"
	"reflect"
	"sync"
	"time"
)

var (
	qnameType       = reflect.TypeFor[QName]()
	timeType        = reflect.TypeFor[time.Time]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// checkType refuses types that have no form in XML, as early as can be.
func (f *bindField) checkType() error {
	t := f.typ
	switch f.mode {
	case bindInner, bindComment:
		if t.Kind() != reflect.String && !isOctets(t) {
			return errTagInner
		}
		return nil
	case bindAnyAttr:
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if !isBindAttr(t) {
			return errTagAnyAttr
		}
		return nil
	}
	if f.mode != bindAttr && f.mode != bindText && f.mode != bindCDATA {
		return checkElementType(t)
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isTextual(t) || isScalar(t) || t.Kind() == reflect.Interface {
		return nil
	}
	return errTagUnsupported
}

func checkElementType(t reflect.Type) error {
	for !isTextual(t) {
		if hasXMLMethods(t) {
			return errTagXMLMethods
		}
		switch {
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice && !isOctets(t):
			t = t.Elem()
			continue
		case isScalar(t), t.Kind() == reflect.Struct, t.Kind() == reflect.Interface:
			return nil
		}
		return errTagUnsupported
	}
	return nil
}

// bindClass is how values of a type are read and written.
type bindClass uint8

const (
	classOther   bindClass = iota + 1 // not at all
	classMethods                      // by methods of encoding/xml, so not at all
	classTextual                      // by their own MarshalText and UnmarshalText
	classScalar
	classStruct
	classList // one element for each
)

// bindClasses remembers classes: asking what a type implements takes longer than
// reading a number.
var bindClasses sync.Map // reflect.Type to bindClass

func classOf(t reflect.Type) bindClass {
	if c, ok := bindClasses.Load(t); ok {
		return c.(bindClass)
	}
	c := classOther
	switch {
	case isTextual(t):
		c = classTextual
	case hasXMLMethods(t):
		c = classMethods
	case isScalar(t):
		c = classScalar
	case t.Kind() == reflect.Struct:
		c = classStruct
	case t.Kind() == reflect.Slice:
		c = classList
	}
	bindClasses.Store(t, c)
	return c
}

// isTextual reports whether values of t write and read themselves as text.
func isTextual(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(textMarshaler) || p.Implements(textMarshaler) || p.Implements(textUnmarshaler)
}

func hasXMLMethods(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	_, out := p.MethodByName("MarshalXML")
	_, in := p.MethodByName("UnmarshalXML")
	return out || in
}

// isScalar reports whether t has a form as text.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	}
	return isOctets(t)
}

// isOctets reports whether t is a slice of bytes, which is text.
func isOctets(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !isTextual(t.Elem())
}

// isBindAttr reports whether t is like BindAttr, as xml.Attr is.
func isBindAttr(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 2 &&
		t.Field(0).Name == "Name" && t.Field(0).Type.Kind() == reflect.Struct && t.Field(0).Type.ConvertibleTo(qnameType) &&
		t.Field(1).Name == "Value" && t.Field(1).Type.Kind() == reflect.String
}
