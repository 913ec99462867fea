package config

import (
	"reflect"
	"strings"
)

// unbuilt is a key of which this version does not do all that the file can ask.
type unbuilt struct {
	// schema is the key, with everything below it: routes[].retry is also
	// routes[].retry.factor. A * is any name.
	schema string
	// fine says for which values there is nothing to do, so that they are
	// true of this version too; nil is none.
	fine func(v any) bool
	// instead says what works now.
	instead string
}

// notYet lists what is refused as "not available yet". A key leaves this list
// in the change that builds it.
var notYet = []unbuilt{
	{"store.url", isEmpty, "use dir, a store on this machine"},
	{"store.replicas", nil, "use dir, a store on this machine"},
	{"store.credentials", isZero, "use dir, a store on this machine"},
	{"store.tls", isNil, "use dir, a store on this machine"},
	{"store.monitor", isZero, "use dir, a store on this machine"},
	{"store.assume_synced", is(false), "use dir, a store on this machine"},
}

func is(want any) func(any) bool { return func(v any) bool { return v == want } }

func isNil(v any) bool   { rv := reflect.ValueOf(v); return rv.Kind() == reflect.Pointer && rv.IsNil() }
func isZero(v any) bool  { return reflect.ValueOf(v).IsZero() }
func isEmpty(v any) bool { return reflect.ValueOf(v).Len() == 0 }

// findUnbuilt returns the entry of notYet that covers a key of the schema, and
// whether it is the entry's own key, not one below it.
func findUnbuilt(schema string) (entry *unbuilt, exact bool) {
	for i := range notYet {
		rest, found := strings.CutPrefix(schema, notYet[i].schema)
		if found && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return &notYet[i], rest == ""
		}
	}
	return nil, false
}

// checkNotYet refuses what was asked for and is not built. A section that is
// not built is one problem, however many keys it has.
func (l *loader) checkNotYet() {
	reported := map[string]bool{}
	for _, k := range l.set {
		u, exact := findUnbuilt(k.schema)
		if u == nil || l.failed[k.path] {
			continue
		}
		section := k.path
		if exact {
			if u.fine != nil && u.fine(k.value.Interface()) {
				continue
			}
		} else {
			section = sectionOf(k.path, k.schema[len(u.schema):])
			if l.isSet(section) {
				continue // it has been judged as a whole
			}
		}
		if !reported[section] {
			reported[section] = true
			at := k.at
			if key, ok := l.keyPlaces[k.path]; ok && at.name == "" {
				at = key
			}
			l.report(at, k.path, "not available yet", u.instead)
		}
	}
}

// sectionOf cuts from a path as many parts as rest, the end of its schema, has.
func sectionOf(path, rest string) string {
	for range strings.Count(rest, ".") + strings.Count(rest, "[") {
		if i := strings.LastIndexAny(path, ".["); i >= 0 {
			path = path[:i]
		}
	}
	return path
}
