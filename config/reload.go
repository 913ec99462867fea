package config

import (
	"reflect"
	"slices"
)

// RestartNeeded lists the keys that differ between two configurations and are
// only read at start, those that CONFIG.md marks with R: a listener and
// everything below it, the place and durability of the store, admin. Sorted.
// A listener that came or went is one key, as is one with another name.
func RestartNeeded(old, new *Config) []string {
	var d differ
	d.structFields(reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), "", false)
	slices.Sort(d.keys)
	return slices.Compact(d.keys)
}

// A differ collects the keys of two values of one type that differ.
type differ struct{ keys []string }

func (d *differ) structFields(a, b reflect.Value, path string, restart bool) {
	for _, f := range fieldsOf(a.Type()) {
		d.value(a.FieldByIndex(f.index), b.FieldByIndex(f.index), joined(path, f.key), restart || f.rules.restart)
	}
}

// value compares two values of a key; restart says whether the key counts.
func (d *differ) value(a, b reflect.Value, path string, restart bool) {
	t := a.Type()
	switch {
	case t.Kind() == reflect.Struct && !isLeaf(t):
		d.structFields(a, b, path, restart)
	case !restart:
	case t.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() && t.Elem().Kind() == reflect.Struct:
		d.structFields(a.Elem(), b.Elem(), path, true)
	case t.Kind() == reflect.Slice && isNamed(t.Elem()):
		d.named(a, b, path)
	case t == reflect.TypeFor[Secret]():
		// Where it was read from does not count.
		if !a.Interface().(Secret).Equal(b.Interface().(Secret)) {
			d.keys = append(d.keys, path)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		d.keys = append(d.keys, path)
	}
}

// named compares lists whose items are told apart by their names; their order
// does not count.
func (d *differ) named(a, b reflect.Value, path string) {
	find := func(list reflect.Value, name string) (reflect.Value, bool) {
		for i := range list.Len() {
			if list.Index(i).FieldByName("Name").String() == name {
				return list.Index(i), true
			}
		}
		return reflect.Value{}, false
	}
	for i := range a.Len() {
		name := a.Index(i).FieldByName("Name").String()
		if other, ok := find(b, name); ok {
			d.structFields(a.Index(i), other, joined(path, name), true)
		} else {
			d.keys = append(d.keys, joined(path, name))
		}
	}
	for i := range b.Len() {
		name := b.Index(i).FieldByName("Name").String()
		if _, ok := find(a, name); !ok {
			d.keys = append(d.keys, joined(path, name))
		}
	}
}
