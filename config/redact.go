package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Redacted renders the effective configuration as YAML: what the file, the
// environment and the defaults came to. Secrets, and the credentials and
// queries of URLs, are hidden; a value with ${NAME} in it stands as it was
// written. Keys that this version does not act on are left
// out, so that without secrets the text loads again to the same values.
func (c *Config) Redacted() []byte {
	p := yamlPrinter{meta: c.meta, idle: map[string]bool{}}
	stored := c.storing()
	for name := range c.Backends {
		path := joined("backends", name)
		p.idle[path+".outlier"] = !stored[name]
		p.idle[path+".queue_wait"] = !anyNode(c.Backends[name].Nodes, func(n NodeURL) bool { return !n.Framed() })
	}
	p.structFields(reflect.ValueOf(c).Elem(), "", "", 0)
	return p.buf.Bytes()
}

// Shown is what may be shown of the value of a key, such as
// routes.orders.match.path: the value, or what the file has where it came from
// ${NAME}.
func (c *Config) Shown(key, value string) string {
	if shown, hidden := c.meta.hidden[key]; hidden {
		return shown
	}
	return value
}

// A yamlPrinter writes block style, two spaces a level.
type yamlPrinter struct {
	buf  bytes.Buffer
	meta *meta
	idle map[string]bool // keys without effect here, which would be refused
}

func (p *yamlPrinter) indent(depth int) { p.buf.WriteString(strings.Repeat("  ", depth)) }

func (p *yamlPrinter) structFields(v reflect.Value, path, schema string, depth int) (wrote bool) {
	for _, f := range fieldsOf(v.Type()) {
		if p.field(v.FieldByIndex(f.index), f.key, joined(path, f.key), joined(schema, f.key), depth) {
			wrote = true
		}
	}
	return wrote
}

// field writes one key, unless it holds nothing or cannot be set.
func (p *yamlPrinter) field(v reflect.Value, key, path, schema string, depth int) bool {
	if p.idle[path] {
		return false
	}
	if u, exact := findUnbuilt(schema); u != nil && (!exact || u.fine == nil || !u.fine(v.Interface())) || isNothing(v) {
		return false
	}
	start := p.buf.Len()
	p.indent(depth)
	p.buf.WriteString(quoteYAML(key) + ":")
	if !p.value(v, path, schema, depth) {
		p.buf.Truncate(start)
		return false
	}
	return true
}

// isNothing reports whether a value needs no key: what is absent reads back as
// it.
func isNothing(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return v.Type() != reflect.TypeFor[Rate]() && v.IsZero()
	}
	// A timeout of 0 is that of a route with a backend of its own name.
	return v.Type() == reflect.TypeFor[Duration]() && v.IsZero()
}

// value writes what follows the colon of a key.
func (p *yamlPrinter) value(v reflect.Value, path, schema string, depth int) bool {
	if v.Kind() == reflect.Pointer && !isLeaf(v.Type()) {
		v = v.Elem()
	}
	switch {
	case isLeaf(v.Type()):
		p.buf.WriteString(" " + p.scalar(v, path) + "\n")
		return true
	case v.Kind() == reflect.Map:
		p.buf.WriteString("\n")
		for _, k := range slices.SortedFunc(maps.Keys(mapValues(v)), strings.Compare) {
			p.field(mapValues(v)[k], k, joined(path, k), schema+".*", depth+1)
		}
		return true
	case v.Kind() == reflect.Slice:
		p.buf.WriteString("\n")
		for i := range v.Len() {
			p.item(v.Index(i), p.meta.itemPath(path, i), schema+"[]", depth+1)
		}
		return true
	}
	if m, ok := v.Interface().(Match); ok && m.None {
		p.buf.WriteString(" none\n")
		return true
	}
	p.buf.WriteString("\n")
	return p.structFields(v, path, schema, depth+1)
}

func mapValues(v reflect.Value) map[string]reflect.Value {
	out := make(map[string]reflect.Value, v.Len())
	for _, k := range v.MapKeys() {
		out[k.String()] = v.MapIndex(k)
	}
	return out
}

// item writes one item of a list: a struct has its first key behind the dash.
func (p *yamlPrinter) item(v reflect.Value, path, schema string, depth int) {
	if isLeaf(v.Type()) {
		p.indent(depth)
		p.buf.WriteString("- " + p.scalar(v, path) + "\n")
		return
	}
	start := p.buf.Len()
	if !p.structFields(v, path, schema, depth+1) {
		p.indent(depth)
		p.buf.WriteString("- {}\n")
		return
	}
	p.buf.Bytes()[start+2*depth] = '-'
}

// scalar writes a scalar: as it was written, if its value must not be shown.
func (p *yamlPrinter) scalar(v reflect.Value, path string) string {
	shown, hidden := p.meta.hidden[path]
	if !hidden || v.Type() == reflect.TypeFor[Secret]() {
		return quoteYAML(scalarText(v))
	}
	return doubleQuoted(shown)
}

// scalarText writes a value as a file would, secrets hidden.
func scalarText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case *string:
		return *x
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.String()
}

// plainYAML matches text that any YAML reader takes as it stands.
var plainYAML = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9/._+-]*(:[A-Za-z0-9/][A-Za-z0-9/._+-]*)*$`)

// quoteYAML writes text as a scalar, quoted where it could mean something
// else. A ${ is escaped, so that it is not taken for a variable.
func quoteYAML(text string) string {
	if plainYAML.MatchString(text) && !strings.EqualFold(text, "null") {
		return text
	}
	return doubleQuoted(strings.ReplaceAll(text, "${", "$${"))
}

func doubleQuoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff || c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
