package reference

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write the pages of docs/reference anew")

// TestUpToDate: the pages are what the sources say.
func TestUpToDate(t *testing.T) {
	present(t, "configuration.md", configReference(t))
	present(t, "api.md", apiReference(t))
}

// object is a mapping in the order of its file.
type object = yaml.MapSlice

func get(o object, key string) any {
	for _, item := range o {
		if fmt.Sprint(item.Key) == key {
			return item.Value
		}
	}
	return nil
}

func child(o object, key string) object {
	c, _ := get(o, key).(object)
	return c
}

func text(o object, key string) string {
	s, _ := get(o, key).(string)
	return strings.TrimSpace(s)
}

// line is a text for a cell of a table.
func line(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

type api struct {
	root object
	b    strings.Builder
}

func apiReference(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../admin/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := &api{}
	if err := yaml.UnmarshalWithOptions(doc, &a.root, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	a.b.WriteString("# The admin API\n\nWritten from `internal/admin/openapi.yaml`, which a gateway serves at `/api/v1/openapi.yaml`, by `make docs`. Paths are below `/api/v1` of the admin listener.\n\n")
	a.b.WriteString(text(child(a.root, "info"), "description") + "\n")
	n := 0
	for _, p := range child(a.root, "paths") {
		methods, _ := p.Value.(object)
		for _, m := range methods {
			op, _ := m.Value.(object)
			a.operation(strings.ToUpper(fmt.Sprint(m.Key)), fmt.Sprint(p.Key), op)
			n++
		}
	}
	if n < 15 {
		t.Fatalf("%d operations", n)
	}
	a.b.WriteString("\n# What is in them\n")
	for _, s := range child(child(a.root, "components"), "schemas") {
		schema, _ := s.Value.(object)
		fmt.Fprintf(&a.b, "\n## %v\n\n", s.Key)
		a.schema(schema)
	}
	return a.b.String()
}

// follow returns what a reference stands for, and its name.
func (a *api) follow(o object) (target object, name string) {
	ref := text(o, "$ref")
	if ref == "" {
		return o, ""
	}
	target = a.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		target, name = child(target, part), part
	}
	return target, name
}

func (a *api) operation(method, path string, op object) {
	fmt.Fprintf(&a.b, "\n## %s %s\n\n%s.\n", method, path, strings.TrimSuffix(text(op, "summary"), "."))
	if about := text(op, "description"); about != "" {
		a.b.WriteString("\n" + about + "\n")
	}
	if list, _ := get(op, "parameters").([]any); len(list) > 0 {
		a.b.WriteString("\n| parameter | in | value | meaning |\n|---|---|---|---|\n")
		for _, v := range list {
			o, _ := v.(object)
			p, _ := a.follow(o)
			required := ""
			if r, _ := get(p, "required").(bool); r {
				required = ", required"
			}
			fmt.Fprintf(&a.b, "| `%s` | %s%s | %s | %s |\n", text(p, "name"), text(p, "in"), required, a.kind(child(p, "schema")), line(text(p, "description")))
		}
	}
	if body, name := a.follow(child(op, "requestBody")); len(body) > 0 {
		fmt.Fprintf(&a.b, "\nBody: %s\n", a.content(body, name))
	}
	a.b.WriteString("\n| answer | |\n|---|---|\n")
	for _, r := range child(op, "responses") {
		o, _ := r.Value.(object)
		answer, _ := a.follow(o)
		status := fmt.Sprint(r.Key)
		if status == "default" {
			status = "else"
		}
		fmt.Fprintf(&a.b, "| %s | %s |\n", status, a.content(answer, ""))
	}
}

// content is a body: what it is, its media types and its schema.
func (a *api) content(o object, name string) string {
	out := line(text(o, "description"))
	if out == "" && name != "" {
		out = name
	}
	for _, c := range child(o, "content") {
		if out != "" {
			out += "; "
		}
		out += fmt.Sprintf("`%v`", c.Key)
		media, _ := c.Value.(object)
		if s := child(media, "schema"); len(s) > 0 {
			out += " " + a.kind(s)
		}
	}
	return out
}

// kind is a schema in words.
func (a *api) kind(s object) string {
	if _, name := a.follow(s); name != "" {
		return "[" + name + "](#" + anchor(name) + ")"
	}
	switch typ := text(s, "type"); {
	case typ == "array":
		return "list of " + a.kind(child(s, "items"))
	case get(s, "enum") != nil:
		values, _ := get(s, "enum").([]any)
		var out []string
		for _, v := range values {
			out = append(out, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(out, `, `)
	case typ == "object" && len(child(s, "properties")) > 0:
		var out []string
		for _, p := range child(s, "properties") {
			out = append(out, fmt.Sprintf("`%v`", p.Key))
		}
		return "object with " + strings.Join(out, ", ")
	case text(s, "format") != "":
		return typ + " (" + text(s, "format") + ")"
	case typ == "":
		return "any"
	default:
		return typ
	}
}

// schema writes the fields of an object.
func (a *api) schema(s object) {
	if about := text(s, "description"); about != "" {
		a.b.WriteString(about + ".\n\n")
	}
	properties := child(s, "properties")
	if len(properties) == 0 {
		a.b.WriteString(a.kind(s) + "\n")
		return
	}
	required := map[string]bool{}
	list, _ := get(s, "required").([]any)
	for _, v := range list {
		required[fmt.Sprint(v)] = true
	}
	a.b.WriteString("| field | value | meaning |\n|---|---|---|\n")
	for _, p := range properties {
		o, _ := p.Value.(object)
		mark := ""
		if required[fmt.Sprint(p.Key)] {
			mark = " (always)"
		}
		fmt.Fprintf(&a.b, "| `%v`%s | %s | %s |\n", p.Key, mark, a.kind(o), line(text(o, "description")))
	}
}
