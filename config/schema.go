package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// rules are what a struct tag says about a key beyond its type:
//
//	required      must be written
//	restart       is only read at start; holds for all keys below
//	none          the word none is allowed, and means unlimited
//	zero          0 is allowed; else it is refused
//	word=W        of a pointer or list: the word W means none of it
//	scalar        of a list: one item may stand without the list
//	name          a name: lower case letters, digits and dashes
//	address       host:port to listen on
//	port          a TCP port
//	url           an absolute http or https URL, of a plain string
//	schemes=A|B   the schemes of a URL
//	oneof=A|B     the only values
//	range=A-B     the least and greatest value
//	dir, out      a File that is a folder, or is written: need not exist
type rules struct {
	required, restart, none, zero, scalar bool
	name, address, port, url, dir, out    bool
	word                                  string
	schemes, oneof                        []string
	lo, hi                                float64
	ranged                                bool
}

// A field is one key of a struct.
type field struct {
	key   string
	index []int // through embedded structs
	typ   reflect.Type
	def   string // "" is the type's zero value
	rules rules
}

var fieldCache sync.Map // reflect.Type -> []field

// fieldsOf returns the keys of a struct type in the order of its fields, those
// of embedded structs included. The tags are ours: a wrong one panics, and
// TestSchema meets every one.
func fieldsOf(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous {
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				out = append(out, f)
			}
			continue
		}
		key := sf.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		r, err := parseRules(sf.Tag.Get("rules"))
		if err != nil {
			panic(fmt.Sprintf("config: %v.%s: %v", t, sf.Name, err))
		}
		out = append(out, field{key: key, index: []int{i}, typ: sf.Type, def: sf.Tag.Get("default"), rules: r})
	}
	fieldCache.Store(t, out)
	return out
}

func parseRules(tag string) (rules, error) {
	var r rules
	// A comma separates rules, but for schemes and oneof the values are
	// separated by a bar, so no value has a comma.
	for rule := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(rule, "=")
		switch name {
		case "":
		case "required":
			r.required = true
		case "restart":
			r.restart = true
		case "none":
			r.none = true
		case "zero":
			r.zero = true
		case "scalar":
			r.scalar = true
		case "name":
			r.name = true
		case "address":
			r.address = true
		case "port":
			r.port = true
		case "url":
			r.url = true
		case "dir":
			r.dir = true
		case "out":
			r.out = true
		case "word":
			r.word = value
		case "schemes":
			r.schemes = strings.Split(value, "|")
		case "oneof":
			r.oneof = strings.Split(value, "|")
		case "range":
			lo, hi, _ := strings.Cut(value, "-")
			var err1, err2 error
			r.lo, err1 = strconv.ParseFloat(lo, 64)
			r.hi, err2 = strconv.ParseFloat(hi, 64)
			if err1 != nil || err2 != nil {
				return r, fmt.Errorf("bad range %q", value)
			}
			r.ranged = true
		default:
			return r, fmt.Errorf("unknown rule %q", name)
		}
	}
	return r, nil
}

// isLeaf reports whether a value of t is written as one scalar.
func isLeaf(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		return t.Elem().Kind() == reflect.String
	}
	switch t {
	case reflect.TypeFor[Rate](), reflect.TypeFor[Secret](), reflect.TypeFor[URL](), reflect.TypeFor[NodeURL](),
		reflect.TypeFor[PathPattern](), reflect.TypeFor[QName](), reflect.TypeFor[OrderBy](), reflect.TypeFor[HashBy](),
		reflect.TypeFor[DedupBy](), reflect.TypeFor[WSDL](), reflect.TypeFor[Output](), reflect.TypeFor[netip.Prefix]():
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer:
		return false
	}
	return true
}

// isNamed reports whether the items of a list of t are told apart by a name.
func isNamed(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || isLeaf(t) {
		return false
	}
	for _, f := range fieldsOf(t) {
		if f.key == "name" {
			return true
		}
	}
	return false
}

// keysNamed returns the places in the whole schema where a key may stand, for
// the hint at a key that stands somewhere else.
func keysNamed(key string) []string {
	var found []string
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		switch t.Kind() {
		case reflect.Pointer:
			if t.Elem().Kind() == reflect.Struct {
				walk(t.Elem(), path)
			}
		case reflect.Slice:
			walk(t.Elem(), path+"[]")
		case reflect.Map:
			walk(t.Elem(), path+".NAME")
		case reflect.Struct:
			if isLeaf(t) {
				return
			}
			for _, f := range fieldsOf(t) {
				if f.key == key {
					found = append(found, path)
				}
				walk(f.typ, joined(path, f.key))
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return found
}

// nearest returns the candidate that is likely meant by word, or "".
func nearest(word string, candidates []string) string {
	best, bestDistance := "", max(1, min(len(word)/3, 4))+1
	for _, c := range candidates {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, changes and swaps of
// neighbours that turn a into b. Long words are not near to anything.
func editDistance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return 100
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
