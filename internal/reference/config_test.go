package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// source is what the files of package config declare.
type source struct {
	structs map[string]*ast.StructType
	docs    map[string]string   // of types
	values  map[string][]string // of the string types that are enumerations
	fields  map[string]string   // keys by the names of their fields
}

func readConfig(t *testing.T) *source {
	t.Helper()
	files, err := filepath.Glob("../../config/*.go")
	if err != nil {
		t.Fatal(err)
	}
	s := &source{structs: map[string]*ast.StructType{}, docs: map[string]string{}, fields: map[string]string{}, values: map[string][]string{}}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				s.method(fn)
			}
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				ts := spec.(*ast.TypeSpec)
				s.docs[ts.Name.Name] = prose(g.Doc)
				if st, ok := ts.Type.(*ast.StructType); ok {
					s.structs[ts.Name.Name] = st
					for _, f := range st.Fields.List {
						for _, n := range f.Names {
							s.fields[n.Name] = keyOf(f)
						}
					}
				}
			}
		}
	}
	return s
}

// method takes up the values of an enumeration.
func (s *source) method(fn *ast.FuncDecl) {
	if fn.Name.Name != "values" || fn.Recv == nil || len(fn.Body.List) != 1 {
		return
	}
	ret, ok := fn.Body.List[0].(*ast.ReturnStmt)
	if !ok {
		return
	}
	list, ok := ret.Results[0].(*ast.CompositeLit)
	if !ok {
		return
	}
	typ := fn.Recv.List[0].Type.(*ast.Ident).Name
	for _, e := range list.Elts {
		v, err := strconv.Unquote(e.(*ast.BasicLit).Value)
		if err == nil {
			s.values[typ] = append(s.values[typ], v)
		}
	}
}

// prose is a comment as one line, without the links of Go.
func prose(c *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(c.Text()), " ")
	return regexp.MustCompile(`\[(?:[A-Z]\w*\.)?([A-Z]\w*)\]`).ReplaceAllString(text, "$1")
}

// keyed reports whether a type is a map of keys, and not one value.
func (s *source) keyed(typ string) bool {
	st := s.structs[typ]
	if st == nil {
		return false
	}
	for _, f := range st.Fields.List {
		if f.Tag != nil && strings.Contains(f.Tag.Value, "yaml:") || len(f.Names) == 0 {
			return true
		}
	}
	return false
}

// page writes the sections of the reference.
type page struct {
	*source
	b     strings.Builder
	queue []section // still to be written
}

type section struct {
	path, typ, about string
	restart          bool
}

func configReference(t *testing.T) string {
	p := &page{source: readConfig(t), queue: []section{{typ: "Config"}}}
	p.b.WriteString(`# Every configuration key

Written from the types of the program by ` + "`make docs`" + `; what the keys are for stands in the [user guide](../user-guide.md).

A key that is marked **R** is read at a start only: a reload that changes it is refused and changes nothing. A default of – is none: the key is absent. Every key with one value, and every list of
such values, can be set by a variable of the environment: ` + "`GATEWAY_`" + ` and its path, in capitals and with ` + "`_`" + ` for everything that is not a letter or digit; items of lists go by their name
(` + "`GATEWAY_ROUTES_ORDERS_TIMEOUT`" + `). Times are written as 1.5s, 20m, 36h or 5d; sizes as 10kB, 64KiB, 1GiB; rates as 100/s or 6000/m; secrets as text, ` + "`file:PATH`" + ` or ` + "`${NAME}`" + `.
`)
	for len(p.queue) > 0 {
		s := p.queue[0]
		p.queue = p.queue[1:]
		p.section(s)
	}
	return p.b.String()
}

func (p *page) section(s section) {
	title := s.path
	if title == "" {
		title = "The file"
	} else {
		title = "`" + title + "`"
	}
	fmt.Fprintf(&p.b, "\n## %s\n\n", title)
	if s.about != "" && s.path != "" {
		p.b.WriteString(p.named(s.about, p.structs[s.typ]) + "\n\n")
	}
	p.b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	var below []section
	p.rows(s, p.structs[s.typ], &below)
	// What belongs together stands together.
	p.queue = append(below, p.queue...)
}

func (p *page) rows(s section, st *ast.StructType, below *[]section) {
	last := ""
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			p.rows(s, p.structs[f.Type.(*ast.Ident).Name], below)
			continue
		}
		tag := reflect.StructTag("")
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		}
		key := tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		rules := map[string]string{}
		for rule := range strings.SplitSeq(tag.Get("rules"), ",") {
			name, value, _ := strings.Cut(rule, "=")
			rules[name] = value
		}
		_, restart := rules["restart"]
		restart = restart || s.restart
		word, inner, suffix := p.value(f.Type, rules)
		def := "`" + tag.Get("default") + "`"
		if tag.Get("default") == "" {
			def = "–"
		}
		if _, required := rules["required"]; required {
			def = "**required**"
		}
		mark := ""
		if restart {
			mark = " **R**"
		}
		about := prose(f.Doc)
		if name := f.Names[0].Name; about == "" && regexp.MustCompile(`\b`+name+`\b`).MatchString(last) {
			about = last // one comment on several keys
		}
		last = about
		about = p.named(about, st)
		path := strings.TrimPrefix(s.path+"."+key, ".") + suffix
		if inner != "" {
			word += ", [below](#" + anchor(path) + ")"
			*below = append(*below, section{path, inner, p.docs[inner], restart})
		}
		fmt.Fprintf(&p.b, "| `%s`%s | %s | %s | %s |\n", key, mark, word, def, strings.ReplaceAll(about, "|", `\|`))
	}
}

// named puts the keys in the place of what the fields are called in Go: those of the
// struct, and of others where the name can be nothing else.
func (p *page) named(text string, st *ast.StructType) string {
	own := map[string]string{}
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			own[n.Name] = keyOf(f)
		}
	}
	text = regexp.MustCompile(`\b[A-Z]\w+\b`).ReplaceAllStringFunc(text, func(word string) string {
		if key := own[word]; key != "" {
			return "`" + key + "`"
		}
		if key := p.fields[word]; key != "" && len(regexp.MustCompile(`[A-Z]`).FindAllString(word, -1)) > 1 && strings.ToUpper(word) != word {
			return "`" + key + "`"
		}
		return word
	})
	return regexp.MustCompile(`\bnil\b`).ReplaceAllString(text, "absent")
}

func keyOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml")
}

// words are the types of values in words.
var words = map[string]string{
	"string": "text", "bool": "true or false", "int": "number", "float64": "number", "Duration": "time", "Size": "size", "Count": "number",
	"File": "path", "URL": "URL", "Secret": "secret", "Rate": "rate", "QName": "qualified name", "NodeURL": "URL of a node", "PathPattern": "path, or path/*",
	"OrderBy": "none, route, http:NAME, header:QNAME or body:/QNAME/…", "DedupBy": "message-id, or as order_by", "HashBy": "cookie:NAME, header:NAME, client or key",
	"WSDL": "auto, off, path or URL", "Output": "off, stdout or path", "Prefix": "network (CIDR)",
}

// value says in words what stands behind a key: inner is the type whose keys stand
// below it, suffix what the path of these has in addition.
func (p *page) value(e ast.Expr, rules map[string]string) (word, inner, suffix string) {
	switch t := e.(type) {
	case *ast.StarExpr:
		return p.value(t.X, rules)
	case *ast.ArrayType:
		word, inner, suffix = p.value(t.Elt, rules)
		if inner != "" {
			return "list", inner, "[]" + suffix
		}
		return "list: " + word, "", ""
	case *ast.MapType:
		word, inner, suffix = p.value(t.Value, rules)
		if inner != "" {
			return "keys by name", inner, ".NAME" + suffix
		}
		return "map: name to " + word, "", ""
	case *ast.SelectorExpr:
		return words[t.Sel.Name], "", ""
	case *ast.Ident:
		word = words[t.Name]
		switch {
		case len(p.values[t.Name]) > 0:
			word = "`" + strings.Join(p.values[t.Name], "` \\| `") + "`"
		case rules["oneof"] != "":
			word = "`" + strings.ReplaceAll(rules["oneof"], "|", "` \\| `") + "`"
		case p.keyed(t.Name):
			return "keys", t.Name, ""
		}
		if r := rules["range"]; r != "" {
			word += " from " + strings.Replace(r, "-", " to ", 1)
		}
		if v := rules["schemes"]; v != "" {
			word += " (" + strings.ReplaceAll(v, "|", ", ") + ")"
		}
		if _, none := rules["none"]; none {
			word += ", or `none`"
		}
		return word, "", ""
	}
	return "", "", ""
}

// anchor is what a heading is called in a link.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, title)
}

// TestConfigWords: every key has its value and its meaning.
func TestConfigWords(t *testing.T) {
	rows := 0
	for line := range strings.Lines(configReference(t)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "/"), " | ")
		if len(cells) != 4 || strings.TrimSpace(cells[1]) == "" || strings.Trim(cells[3], " |") == "" {
			t.Errorf("a cell is empty: %s", line)
		}
	}
	if rows < 200 {
		t.Errorf("%d keys", rows)
	}
}

// present compares a page with what it must be, or writes it.
func present(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join("../../docs/reference", name)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/reference/%s is not what its source says: run make docs", name)
	}
}
