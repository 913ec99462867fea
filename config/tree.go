package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A node is one value of the file, or of a variable of the environment.
// Aliases share nodes, so a node is never changed once it is made.
type node struct {
	kind    kind
	at      place
	text    string // of a scalar, ${NAME} replaced
	shown   string // of a scalar as it was written: what a message may quote
	entries []entry
	items   []*node
}

type kind uint8

const (
	null kind = iota // no value, or ~, or null
	scalar
	list
	mapping
)

func (k kind) String() string { return [...]string{"nothing", "a value", "a list", "a map"}[k] }

// An entry is one key of a mapping.
type entry struct {
	key   string
	at    place
	value *node
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// A treeBuilder turns the syntax tree of the YAML library into nodes: it
// follows aliases, replaces variables and reports what the tree itself has
// wrong, such as a key that stands twice.
type treeBuilder struct {
	file    string
	expand  func(text string) (string, error)
	report  func(at place, key, message, hint string)
	anchors map[string]anchor // the latest of each name, as the tree is walked in its order
}

// An anchor is what an alias may name; node is nil while the anchor's own
// value is being built, where an alias to it would be a circle.
type anchor struct{ node *node }

// parseTree parses data into a tree. A syntax error ends it: there is one
// problem and no tree then. An empty file is a nil tree.
func parseTree(file string, data []byte, expand func(string) (string, error), report func(place, string, string, string)) *node {
	b := &treeBuilder{file: file, expand: expand, report: report, anchors: map[string]anchor{}}
	src, ok := b.source(data)
	if !ok {
		return nil
	}
	doc, err := parseDocument(src)
	if err != nil {
		b.syntax(err)
		return nil
	}
	if len(doc) == 0 {
		return nil
	}
	if len(doc) > 1 {
		report(b.place(doc[1].GetToken()), "", "a second document", "a configuration is one YAML document, remove the line ---")
		return nil
	}
	return b.build(doc[0], "")
}

// parseDocument returns the bodies of the documents that are not empty. The
// library panics on some broken input; that is a syntax error like others.
func parseDocument(src string) (bodies []ast.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			bodies, err = nil, fmt.Errorf("the YAML parser gave up: %v", r)
		}
	}()
	tokens, err := scanTokens(src)
	if err != nil {
		return nil, err
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	for _, d := range f.Docs {
		if d.Body == nil {
			continue
		}
		if _, ok := d.Body.(*ast.DirectiveNode); ok {
			continue
		}
		bodies = append(bodies, d.Body)
	}
	return bodies, nil
}

func (b *treeBuilder) place(tk *token.Token) place {
	if tk == nil || tk.Position == nil {
		return place{source: b.file}
	}
	return place{source: b.file, line: tk.Position.Line, col: max(tk.Position.Column, 1)}
}

// syntax reports an error of the parser.
func (b *treeBuilder) syntax(err error) {
	var limit *limitError
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &limit):
		b.report(place{source: b.file, line: limit.line, col: limit.col}, "", limit.message, limit.hint)
	case errors.As(err, &syntax):
		message, hint := syntax.Message, ""
		if m := strings.ToLower(message); strings.Contains(m, "tab") || strings.Contains(message, `'\t'`) {
			hint = "YAML is indented with spaces"
		} else if strings.Contains(m, "non-map value") || strings.Contains(m, "map key-value is pre-defined") ||
			strings.Contains(m, "unexpected key name") {
			hint = "check the indentation and the colon after the key"
		}
		b.report(b.place(syntax.Token), "", "not valid YAML: "+message, hint)
	default:
		b.report(place{source: b.file}, "", "not valid YAML: "+err.Error(), "")
	}
}

// build converts one value; key is its path, for messages.
func (b *treeBuilder) build(n ast.Node, key string) *node {
	switch n := n.(type) {
	case nil:
		return &node{kind: null, at: place{source: b.file}}
	case *ast.NullNode:
		return &node{kind: null, at: b.place(n.GetToken())}
	case *ast.MappingNode:
		return b.mapping(n, key)
	case *ast.MappingValueNode:
		return b.mapping(&ast.MappingNode{Start: n.Start, Values: []*ast.MappingValueNode{n}}, key)
	case *ast.SequenceNode:
		out := &node{kind: list, at: b.place(n.Start)}
		for i, v := range n.Values {
			out.items = append(out.items, b.build(v, indexed(key, i)))
		}
		return out
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		b.anchors[name] = anchor{}
		v := b.build(n.Value, key)
		b.anchors[name] = anchor{node: v}
		return v
	case *ast.AliasNode:
		return b.alias(n, key)
	case *ast.TagNode:
		switch tag := n.Start.Value; tag {
		case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map":
		default:
			b.report(b.place(n.Start), key, fmt.Sprintf("the tag %s is not known", quote(tag)), "remove it, types come from the key")
		}
		return b.build(n.Value, key)
	case *ast.LiteralNode:
		return b.scalar(n.Start, n.Value.Value, key)
	case *ast.StringNode:
		return b.scalar(n.Token, n.Value, key)
	case *ast.MergeKeyNode:
		return b.scalar(n.Token, n.Token.Value, key)
	case ast.ScalarNode: // numbers and booleans: their text counts, so that 1.10 stays 1.10
		return b.scalar(n.GetToken(), n.GetToken().Value, key)
	}
	b.report(b.place(n.GetToken()), key, "not a value, a list or a map", "")
	return &node{kind: null, at: b.place(n.GetToken())}
}

func (b *treeBuilder) scalar(tk *token.Token, text, key string) *node {
	n := &node{kind: scalar, at: b.place(tk), text: text, shown: text}
	if strings.Contains(text, "${") {
		expanded, err := b.expand(text)
		if err != nil {
			b.report(n.at, key, err.Error(), "set it, or write $${ for a literal ${")
		}
		n.text = expanded
	}
	return n
}

func (b *treeBuilder) alias(n *ast.AliasNode, key string) *node {
	name := n.Value.GetToken().Value
	at := b.place(n.Start)
	a, ok := b.anchors[name]
	switch {
	case !ok:
		b.report(at, key, fmt.Sprintf("the alias *%s names no anchor above it", cut(name)), "write &"+cut(name)+" before the value that is meant")
	case a.node == nil:
		b.report(at, key, fmt.Sprintf("the alias *%s stands inside its own anchor", cut(name)), "")
	default:
		return a.node
	}
	return &node{kind: null, at: at}
}

func (b *treeBuilder) mapping(n *ast.MappingNode, key string) *node {
	out := &node{kind: mapping, at: b.place(n.Start)}
	seen := map[string]place{}
	for i, v := range n.Values {
		at := b.place(v.Key.GetToken())
		if i == 0 && !n.IsFlowStyle {
			out.at = at // of a block map the library gives the place of its first colon
		}
		name, ok := b.key(v.Key, key)
		if !ok {
			continue
		}
		path := joined(key, name)
		value := b.build(v.Value, path)
		if first, twice := seen[name]; twice {
			b.report(at, path, "the key stands twice", fmt.Sprintf("it stands in line %d already, remove one", first.line))
			continue
		}
		seen[name] = at
		if value.kind == null && value.at.line == 0 {
			value.at = at
		}
		out.entries = append(out.entries, entry{key: name, at: at, value: value})
	}
	return out
}

// key returns the text of a map's key.
func (b *treeBuilder) key(k ast.MapKeyNode, path string) (string, bool) {
	at := b.place(k.GetToken())
	switch k := k.(type) {
	case *ast.MergeKeyNode:
		b.report(at, joined(path, "<<"), "merge keys are not supported", "write the keys out, or use an alias for a whole value")
		return "", false
	case *ast.StringNode:
		return k.Value, true
	case *ast.MappingKeyNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		b.report(at, path, "a key must be a plain word", "")
		return "", false
	}
	return k.GetToken().Value, true
}

// joined returns the path of a key under path; indexed that of an item.
func joined(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// quote quotes untrusted text for a message, cut to a readable length.
func quote(s string) string { return fmt.Sprintf("%q", cut(s)) }

func cut(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
