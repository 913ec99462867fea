package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A setKey is a key that was written, in the file or elsewhere.
type setKey struct {
	path   string        // as messages name it: routes.orders.hold
	schema string        // as the types name it: routes[].hold
	value  reflect.Value // what it holds now
	at     place
}

// mark notes that a key was written. A later source replaces an earlier one.
func (l *loader) mark(path, schema string, v reflect.Value, at place) {
	l.places[path] = at
	if i, ok := l.setIndex[path]; ok {
		l.set[i] = setKey{path: path, schema: schema, value: v, at: at}
		return
	}
	l.setIndex[path] = len(l.set)
	l.set = append(l.set, setKey{path: path, schema: schema, value: v, at: at})
}

// isSet reports whether a key was written.
func (l *loader) isSet(path string) bool {
	_, ok := l.setIndex[path]
	return ok
}

// decode stores a node in v and reports what does not fit. Everything that can
// be read is, so that one bad key does not hide the next.
func (l *loader) decode(v reflect.Value, n *node, path, schema string, r rules) {
	l.values++
	if l.values > maxValues {
		if l.values == maxValues+1 {
			l.report(n.at, path, fmt.Sprintf("more than %d values, aliases followed", maxValues), "")
		}
		return
	}
	l.mark(path, schema, v, n.at)
	l.hide(path, n)
	l.reportNotes(n, path)
	switch n.kind {
	case broken:
		return
	case null:
		l.report(n.at, path, "has no value", "give it one or remove the key")
		return
	}
	t := v.Type()
	if r.word != "" && n.kind == scalar && n.text == r.word {
		v.SetZero()
		return
	}
	switch {
	case isLeaf(t):
		l.decodeScalar(v, n, path, r)
	case t.Kind() == reflect.Pointer:
		fresh := reflect.New(t.Elem())
		l.setDefaults(fresh.Elem())
		v.Set(fresh)
		l.decodeStruct(fresh.Elem(), n, path, schema, r)
	case t.Kind() == reflect.Struct:
		l.decodeStruct(v, n, path, schema, r)
	case t.Kind() == reflect.Map:
		l.decodeMap(v, n, path, schema, r)
	case t.Kind() == reflect.Slice:
		l.decodeList(v, n, path, schema, r)
	}
}

// reportNotes reports what is wrong with the node itself.
func (l *loader) reportNotes(n *node, path string) {
	for _, note := range n.notes {
		key := path
		if note.key != "" {
			key = joined(path, note.key)
		}
		l.report(note.at, key, note.message, note.hint)
	}
}

func (l *loader) decodeScalar(v reflect.Value, n *node, path string, r rules) {
	if n.kind != scalar {
		l.report(n.at, path, fmt.Sprintf("%s where one value belongs", n.kind), "")
		return
	}
	l.borrowed = false
	err := l.setScalar(v, n.text, n.shown, r)
	if l.borrowed {
		l.hidden[path] = n.shown
	}
	l.scalarError(err, n, path)
}

func (l *loader) scalarError(err error, n *node, path string) {
	var b *badValue
	switch {
	case err == nil:
	case errors.As(err, &b):
		message, hint := b.told(n.shown, l.isHidden(path))
		l.report(n.at, path, message, hint)
	default:
		l.report(n.at, path, err.Error(), "")
	}
}

// decodeShort decodes the scalar forms of types that are maps otherwise.
func (l *loader) decodeShort(v reflect.Value, n *node, path, schema string) (done bool) {
	switch p := v.Addr().Interface().(type) {
	case *Node:
		l.mark(path, schema+".url", v.FieldByName("URL"), n.at)
		l.setIndex[joined(path, "url")] = l.setIndex[path]
		l.hide(joined(path, "url"), n)
		l.scalarError(l.setScalar(reflect.ValueOf(&p.URL).Elem(), n.text, n.shown, rules{}), n, path)
		return true
	case *Match:
		if n.text == "none" {
			*p = Match{None: true}
			return true
		}
	}
	return false
}

func (l *loader) decodeStruct(v reflect.Value, n *node, path, schema string, r rules) {
	if n.kind == scalar && l.decodeShort(v, n, path, schema) {
		return
	}
	fields := fieldsOf(v.Type())
	if n.kind != mapping {
		hint := "write the keys below it"
		if r.word != "" {
			hint += ", or " + r.word
		}
		if v.Type() == reflect.TypeFor[Match]() {
			hint += ", or none"
		}
		l.report(n.at, path, fmt.Sprintf("%s where a map belongs", n.kind), hint)
		return
	}
	for _, e := range n.entries {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key })
		if i < 0 {
			near := nearestKey(e.key, fields)
			l.meant[joined(path, near)] = true
			l.report(e.at, joined(path, e.key), "unknown key", unknownHint(e.key, near, fields))
			continue
		}
		f := fields[i]
		l.keyPlaces[joined(path, f.key)] = e.at
		l.decode(v.FieldByIndex(f.index), e.value, joined(path, f.key), joined(schema, f.key), f.rules)
	}
}

// nearestKey returns the key that an unknown one was likely meant to be, or "".
func nearestKey(key string, fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	return nearest(strings.ReplaceAll(key, "-", "_"), names)
}

// unknownHint says what to do about an unknown key.
func unknownHint(key, near string, fields []field) string {
	if near != "" {
		return "did you mean " + near + "?"
	}
	if homes := keysNamed(key); len(homes) > 0 && len(homes) <= 3 {
		for i, h := range homes {
			if h == "" {
				homes[i] = "the top level"
			}
		}
		slices.SortFunc(homes, func(a, b string) int { return len(a) - len(b) })
		return fmt.Sprintf("%s is a key of %s", key, strings.Join(homes, ", "))
	}
	if len(fields) > 12 {
		return ""
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	return "the keys here are " + strings.Join(names, ", ")
}

func (l *loader) decodeMap(v reflect.Value, n *node, path, schema string, _ rules) {
	if n.kind != mapping {
		l.report(n.at, path, fmt.Sprintf("%s where a map belongs", n.kind), "write key: value")
		return
	}
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	for _, e := range n.entries {
		elem := reflect.New(t.Elem()).Elem()
		l.keyPlaces[joined(path, e.key)] = e.at
		l.decode(elem, e.value, joined(path, e.key), schema+".*", rules{})
		if t.Elem().Kind() == reflect.Pointer && elem.IsNil() {
			fresh := reflect.New(t.Elem().Elem())
			l.setDefaults(fresh.Elem())
			elem.Set(fresh)
		}
		v.SetMapIndex(reflect.ValueOf(e.key), elem)
	}
}

func (l *loader) decodeList(v reflect.Value, n *node, path, schema string, r rules) {
	t := v.Type()
	items := n.items
	switch {
	case n.kind == scalar && n.at.name != "": // a variable: commas separate
		items = nil
		for text := range strings.SplitSeq(n.text, ",") {
			text = strings.TrimSpace(text)
			items = append(items, &node{kind: scalar, at: n.at, text: text, shown: text})
		}
		if n.text == "" {
			items = nil
		}
	case n.kind == scalar && r.scalar:
		items = []*node{n}
	case n.kind != list:
		hint := "begin each item with a dash"
		if n.kind == scalar && (isLeaf(t.Elem()) || t.Elem() == reflect.TypeFor[Node]()) {
			hint = "write [" + cut(n.shown) + "]"
		}
		if r.word != "" {
			hint += ", or " + r.word
		}
		l.report(n.at, path, fmt.Sprintf("%s where a list belongs", n.kind), hint)
		return
	}
	if len(items) > maxValues {
		l.report(n.at, path, fmt.Sprintf("more than %d items", maxValues), "")
		return
	}
	v.Set(reflect.MakeSlice(t, len(items), len(items)))
	paths := l.itemPaths(t.Elem(), path, items)
	for i, item := range items {
		elem := v.Index(i)
		l.setDefaults(elem)
		if t.Elem() == reflect.TypeFor[Listener]() {
			elem.FieldByName("Name").SetString(listenerName(item, i))
		}
		l.decode(elem, item, paths[i], schema+"[]", rules{schemes: r.schemes})
	}
}

// listenerName is the name of a listener that the file gives none: its
// protocol and its place in the list, from 1.
func listenerName(n *node, i int) string {
	protocol := ProtocolHTTP
	if p := n.get("protocol"); p != nil && p.text == string(ProtocolFramed) {
		protocol = ProtocolFramed
	}
	return fmt.Sprintf("%s-%d", protocol, i+1)
}

// itemPaths returns the path of each item of a list: by its name where it has
// a good one that no item before it has, else by its number. They are kept,
// so that every later pass names an item alike.
func (l *loader) itemPaths(t reflect.Type, path string, items []*node) []string {
	paths := make([]string, len(items))
	taken := map[string]bool{}
	for i, item := range items {
		paths[i] = indexed(path, i)
		if !isNamed(t) {
			continue
		}
		name := ""
		if n := item.get("name"); n != nil {
			name = n.text
		} else if t == reflect.TypeFor[Listener]() {
			name = listenerName(item, i)
		}
		if isName(name) && !taken[name] {
			taken[name] = true
			paths[i] = joined(path, name)
			if n := item.get("name"); n != nil && n.text != n.shown {
				l.renamed[paths[i]] = indexed(path, i)
			}
		}
	}
	l.items[path] = paths
	return paths
}

// setDefaults fills v, a fresh struct, from the tags of its type. The slices of
// defaults are shared between structs: decoding replaces slices, and nothing
// writes to their items.
func (l *loader) setDefaults(v reflect.Value) {
	t := v.Type()
	if t.Kind() != reflect.Struct || isLeaf(t) {
		return
	}
	made, ok := l.defaults[t]
	if !ok {
		made = reflect.New(t).Elem()
		l.makeDefaults(made)
		l.defaults[t] = made
	}
	v.Set(made)
}

func (l *loader) makeDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		switch {
		case fv.Kind() == reflect.Struct && !isLeaf(f.typ):
			l.setDefaults(fv)
		case f.def == "":
		case fv.Kind() == reflect.Slice:
			for text := range strings.SplitSeq(f.def, ",") {
				elem := reflect.New(f.typ.Elem()).Elem()
				l.mustDefault(elem, text, f)
				fv.Set(reflect.Append(fv, elem))
			}
		default:
			l.mustDefault(fv, f.def, f)
		}
	}
}

// mustDefault sets a default. The tags are ours; TestSchema meets every one.
func (l *loader) mustDefault(v reflect.Value, text string, f field) {
	if err := l.setScalar(v, text, text, f.rules); err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", f.key, err))
	}
}

// checkRequired reports the required keys that no source has written, at the
// place of the value that lacks them.
func (l *loader) checkRequired(v reflect.Value, path string, at place) {
	if l.failed[path] {
		return
	}
	if here, ok := l.places[path]; ok {
		at = here
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct && !v.IsNil() {
			l.checkRequired(v.Elem(), path, at)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			l.checkRequired(v.MapIndex(k), joined(path, k.String()), at)
		}
	case reflect.Slice:
		if paths := l.items[path]; len(paths) == v.Len() {
			for i := range v.Len() {
				l.checkRequired(v.Index(i), paths[i], at)
			}
		}
	case reflect.Struct:
		if isLeaf(v.Type()) {
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			fv, key := v.FieldByIndex(f.index), joined(path, f.key)
			switch {
			case l.meant[key]:
			case f.rules.required && !l.isSet(key):
				l.report(at, key, "is required", requiredHint[key])
			case f.rules.required && fv.Kind() == reflect.Slice && fv.Len() == 0 && !l.failed[key]:
				l.report(l.places[key], key, "must not be empty", "")
			default:
				l.checkRequired(fv, key, at)
			}
		}
	}
}

// requiredHint says how to write the keys that a new user misses first.
var requiredHint = map[string]string{
	"listeners": `such as listeners: [{address: "127.0.0.1:8080"}]`,
}
