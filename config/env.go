package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// envPrefix begins every variable of ours.
const envPrefix = "GATEWAY_"

// A variable is a key that the environment or a flag can set.
type variable struct {
	name, path, schema string
	typ                reflect.Type
	rules              rules
	target             func() reflect.Value // where the value goes; makes what it needs on the way
	store              func(reflect.Value)  // puts the target in its map; nil elsewhere
}

// variables derives the table from the types and from the names that the file
// gave: every scalar, and every list of scalars with commas between the items.
// The name of a list's item is not among them, it is what the others are
// called by. Sorted by name.
func (l *loader) variables() []variable {
	root := reflect.ValueOf(l.cfg).Elem()
	w := &variableWalk{items: l.items, defaults: l.setDefaults}
	w.structFields(root.Type(), func() reflect.Value { return root }, root, "GATEWAY", "", "", false)
	slices.SortStableFunc(w.vars, func(a, b variable) int { return strings.Compare(a.name, b.name) })
	return w.vars
}

type variableWalk struct {
	vars     []variable
	items    map[string][]string
	defaults func(reflect.Value)
}

func (w *variableWalk) structFields(t reflect.Type, target func() reflect.Value, now reflect.Value, env, path, schema string, item bool) {
	for _, f := range fieldsOf(t) {
		if item && f.key == "name" {
			continue
		}
		var fieldNow reflect.Value
		if now.IsValid() {
			fieldNow = now.FieldByIndex(f.index)
		}
		w.walk(f.typ, func() reflect.Value { return target().FieldByIndex(f.index) }, fieldNow,
			env+"_"+envName(f.key), joined(path, f.key), joined(schema, f.key), f.rules)
	}
}

// walk adds the variables of a value of type t. now is the value as it stands,
// invalid below a nil pointer.
func (w *variableWalk) walk(t reflect.Type, target func() reflect.Value, now reflect.Value, env, path, schema string, r rules) {
	add := func() {
		w.vars = append(w.vars, variable{name: env, path: path, schema: schema, typ: t, rules: r, target: target})
	}
	switch {
	case isLeaf(t):
		add()
	case t.Kind() == reflect.Pointer:
		if r.word != "" {
			add()
		}
		made := func() reflect.Value {
			p := target()
			if p.IsNil() {
				p.Set(reflect.New(t.Elem()))
				w.defaults(p.Elem())
			}
			return p.Elem()
		}
		if now.IsValid() {
			now = now.Elem() // invalid if nil
		}
		w.structFields(t.Elem(), made, now, env, path, schema, false)
	case t.Kind() == reflect.Struct:
		if t == reflect.TypeFor[Match]() {
			add()
		}
		w.structFields(t, target, now, env, path, schema, false)
	case t.Kind() == reflect.Map:
		if now.IsValid() {
			w.mapEntries(t, target, now, env, path, schema)
		}
	case t.Kind() == reflect.Slice:
		if isLeaf(t.Elem()) || t.Elem() == reflect.TypeFor[Node]() {
			add()
			return
		}
		if !now.IsValid() || !isNamed(t.Elem()) {
			return
		}
		for i, itemPath := range w.items[path] {
			if name, ok := strings.CutPrefix(itemPath, path+"."); ok && i < now.Len() {
				at := now.Index(i)
				w.structFields(t.Elem(), func() reflect.Value { return at }, at, env+"_"+envName(name), itemPath, schema+"[]", true)
			}
		}
	}
}

func (w *variableWalk) mapEntries(t reflect.Type, target func() reflect.Value, now reflect.Value, env, path, schema string) {
	keys := now.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		key := k.String()
		name, keyPath := env+"_"+envName(key), joined(path, key)
		if t.Elem().Kind() == reflect.Pointer {
			elem := now.MapIndex(k).Elem()
			w.structFields(t.Elem().Elem(), func() reflect.Value { return elem }, elem, name, keyPath, schema+".*", false)
			continue
		}
		elem := reflect.New(t.Elem()).Elem()
		w.vars = append(w.vars, variable{
			name: name, path: keyPath, schema: schema + ".*", typ: t.Elem(),
			target: func() reflect.Value { return elem },
			store:  func(v reflect.Value) { target().SetMapIndex(k, v) },
		})
	}
}

// envName is how a key or name is spelled in a variable.
func envName(key string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, key)
}

// applyEnv sets what the variables of the environment say. One that is ours by
// its prefix and names no key is a problem, unless the file uses it by ${}.
func (l *loader) applyEnv(env map[string]string, used map[string]bool) {
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool { return !strings.HasPrefix(name, envPrefix) })
	if len(ours) == 0 {
		return // the table has 60 variables for each route
	}
	vars := l.variables()
	byName := map[string][]variable{}
	names := make([]string, 0, len(vars))
	for _, v := range vars {
		byName[v.name] = append(byName[v.name], v)
		if l.shownKey(v.path) == v.path {
			names = append(names, v.name)
		}
	}
	for _, name := range ours {
		at := place{source: "environment", name: name}
		switch found := byName[name]; {
		case len(found) == 1:
			l.apply(found[0], env[name], at)
		case len(found) > 1:
			l.report(at, "", fmt.Sprintf("means both %s and %s", l.shownKey(found[0].path), l.shownKey(found[1].path)), "set the key in the file")
		case used[name] || isServiceLink(name, env[name]):
		default:
			hint := "remove it, or spell the path of a key in upper case with _ between its parts"
			if near := nearest(name, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			l.report(at, "", "there is no such key", hint)
		}
	}
}

// applySet sets what flags of the command line say.
func (l *loader) applySet(set map[string]string) {
	if len(set) == 0 {
		return
	}
	vars := l.variables()
	for _, key := range slices.Sorted(maps.Keys(set)) {
		at := place{source: "option", name: key}
		i := slices.IndexFunc(vars, func(v variable) bool { return v.path == key })
		if i < 0 {
			l.report(at, key, "there is no such key", "")
			continue
		}
		l.apply(vars[i], set[key], at)
	}
}

func (l *loader) apply(v variable, text string, at place) {
	target := v.target()
	n := &node{kind: scalar, at: at, text: text, shown: text}
	l.decode(target, n, v.path, v.schema, v.rules)
	if v.store != nil {
		v.store(target)
	}
}

// serviceLink matches what Kubernetes sets in every container for a service
// called gateway or gateway-…
var serviceLink = regexp.MustCompile(`^GATEWAY_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)$`)

// isServiceLink reports whether a variable is not meant for us although it has
// our prefix. A bare …_PORT is one only with the value it gets from there.
func isServiceLink(name, value string) bool {
	if !serviceLink.MatchString(name) {
		return false
	}
	return !strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_") || strings.Contains(name, "_SERVICE_PORT") || strings.Contains(value, "://")
}
