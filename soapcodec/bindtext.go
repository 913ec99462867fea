package soapcodec

import (
	"encoding"
	"errors"
	"math"
	"reflect"
	"strconv"
	"time"
)

// The reasons that text is not what a field asks for.
var (
	errNotBool   = errors.New("not an xs:boolean")
	errNotNumber = errors.New("not a number")
	errRange     = errors.New("the number is out of range")
	errNotTime   = errors.New("not an xs:dateTime or xs:date")
)

// The forms of xs:dateTime and xs:date (XML Schema Part 2 §3.2.7, §3.2.9). A
// fraction of a second is read by all of them.
var timeLayouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02Z07:00", "2006-01-02"}

// setText makes v, which is a scalar or reads itself, what text says. Empty text
// is a zero number, false and the empty string.
func setText(v reflect.Value, text []byte) error {
	if v.Type() == timeType {
		return setTime(v, text)
	}
	if classOf(v.Type()) == classTextual && v.CanAddr() {
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return u.UnmarshalText(text)
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(text))
		return nil
	case reflect.Slice:
		if isOctets(v.Type()) {
			v.SetBytes(append([]byte{}, text...))
			return nil
		}
	}
	s := string(trim(text))
	bits := 0
	if v.CanInt() || v.CanUint() || v.CanFloat() {
		bits = v.Type().Bits()
	}
	switch {
	case v.Kind() != reflect.Bool && bits == 0:
		return errTagUnsupported
	case s == "":
		v.SetZero()
		return nil
	case v.Kind() == reflect.Bool:
		if s != "true" && s != "false" && s != "1" && s != "0" {
			return errNotBool
		}
		v.SetBool(s == "true" || s == "1")
	case v.CanInt():
		n, err := strconv.ParseInt(s, 10, bits)
		if err != nil {
			return numberError(err)
		}
		v.SetInt(n)
	case v.CanUint():
		if s[0] == '+' {
			s = s[1:]
		}
		n, err := strconv.ParseUint(s, 10, bits)
		if err != nil {
			return numberError(err)
		}
		v.SetUint(n)
	default:
		n, err := parseFloat(s, bits)
		if err != nil {
			return numberError(err)
		}
		v.SetFloat(n)
	}
	return nil
}

func numberError(err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return errRange
	}
	return errNotNumber
}

// parseFloat reads xs:double, which knows three words and no hexadecimal.
func parseFloat(s string, bits int) (float64, error) {
	switch s {
	case "INF", "+INF":
		return math.Inf(1), nil
	case "-INF":
		return math.Inf(-1), nil
	case "NaN":
		return math.NaN(), nil
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E' {
			return 0, errNotNumber
		}
	}
	return strconv.ParseFloat(s, bits)
}

// setTime reads a time; one without a zone is in UTC.
func setTime(v reflect.Value, text []byte) error {
	s := string(trim(text))
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			v.Set(reflect.ValueOf(t))
			return nil
		}
	}
	return errNotTime
}

// textOf returns the text of v, which is a scalar or writes itself.
func textOf(v reflect.Value) (string, error) {
	if m, ok := marshalerOf(v); ok {
		text, err := m.MarshalText()
		return string(text), err
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	case v.CanFloat():
		switch n := v.Float(); {
		case math.IsInf(n, 1):
			return "INF", nil
		case math.IsInf(n, -1):
			return "-INF", nil
		default:
			return strconv.FormatFloat(n, 'g', -1, v.Type().Bits()), nil
		}
	case isOctets(v.Type()):
		return string(v.Bytes()), nil
	}
	return "", errTagUnsupported
}

// marshalerOf returns v as a TextMarshaler, by its address if need be.
func marshalerOf(v reflect.Value) (encoding.TextMarshaler, bool) {
	if classOf(v.Type()) != classTextual {
		return nil, false
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		return m, true
	}
	if !v.CanAddr() {
		c := reflect.New(v.Type())
		c.Elem().Set(v)
		v = c.Elem()
	}
	m, ok := v.Addr().Interface().(encoding.TextMarshaler)
	return m, ok
}
