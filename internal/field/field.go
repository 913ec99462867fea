package field

import (
	"net/http"
	"slices"
	"strings"
)

// Field is one line of a header.
type Field struct{ Name, Value string }

// Is reports whether the field has that name, whatever its case.
func (f *Field) Is(name string) bool {
	return len(f.Name) == len(name) && (f.Name == name || strings.EqualFold(f.Name, name))
}

// List are the fields of a message, in the order of their lines.
type List []Field

// Of makes a list of the fields of h, in the order of their names.
func Of(h http.Header) List {
	if h == nil {
		return nil
	}
	names := make([]string, 0, len(h))
	n := 0
	for name, values := range h {
		names = append(names, name)
		n += len(values)
	}
	slices.Sort(names)
	l := make(List, 0, n)
	for _, name := range names {
		for _, v := range h[name] {
			l = append(l, Field{name, v})
		}
	}
	return l
}

// HTTP makes a map of the fields, by their names as they are spelled.
func (l List) HTTP() http.Header {
	h := make(http.Header, len(l))
	for _, f := range l {
		h[f.Name] = append(h[f.Name], f.Value)
	}
	return h
}

// Get returns the value of the first field of that name, "" if there is none.
func (l List) Get(name string) string {
	for i := range l {
		if l[i].Is(name) {
			return l[i].Value
		}
	}
	return ""
}

// Has reports whether there is a field of that name.
func (l List) Has(name string) bool {
	return slices.ContainsFunc(l, func(f Field) bool { return f.Is(name) })
}

// Values returns the values of the fields of that name; nil if there is none.
func (l List) Values(name string) (values []string) {
	for i := range l {
		if l[i].Is(name) {
			values = append(values, l[i].Value)
		}
	}
	return values
}

// Count is the number of fields of that name.
func (l List) Count(name string) (n int) {
	for i := range l {
		if l[i].Is(name) {
			n++
		}
	}
	return n
}

// Clone returns a list of its own.
func (l List) Clone() List { return slices.Clone(l) }

// Add appends a field.
func (l *List) Add(name, value string) { *l = append(*l, Field{name, value}) }

// Set makes the field the only one of its name, in the place of the first.
func (l *List) Set(name, value string) {
	i := slices.IndexFunc(*l, func(f Field) bool { return f.Is(name) })
	if i < 0 {
		l.Add(name, value)
		return
	}
	(*l)[i] = Field{name, value}
	rest := slices.DeleteFunc((*l)[i+1:], func(f Field) bool { return f.Is(name) })
	*l = (*l)[:i+1+len(rest)]
}

// Del removes all fields of these names.
func (l *List) Del(names ...string) {
	l.DelFunc(func(f *Field) bool { return slices.ContainsFunc(names, f.Is) })
}

// DelFunc removes the fields for which del returns true.
func (l *List) DelFunc(del func(f *Field) bool) {
	all := *l
	kept := 0
	for i := range all {
		if del(&all[i]) {
			continue
		}
		if kept != i {
			all[kept] = all[i]
		}
		kept++
	}
	clear(all[kept:])
	*l = all[:kept]
}

// Extend appends an element to the list that the fields of that name are, on one
// line in the place of the first.
func (l *List) Extend(name, element string) {
	if old := strings.Join(l.Values(name), ", "); old != "" {
		element = old + ", " + element
	}
	l.Set(name, element)
}
