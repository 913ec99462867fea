package config

import (
	"errors"
	"fmt"
	"strconv"
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
	notes   []note
}

// A note is something that is wrong with the tree itself, reported with the
// path of the node once that is known.
type note struct {
	at                 place
	key, message, hint string // key is below the node; "" is the node itself
}

type kind uint8

const (
	null kind = iota // no value, or ~, or null
	scalar
	list
	mapping
	broken // nothing to decode, a note says why
)

func (k kind) String() string {
	return [...]string{"nothing", "a value", "a list", "a map", "nothing"}[k]
}

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
	expand  func(text string) (string, *badValue)
	report  func(at place, key, message, hint string)
	anchors map[string]anchor // the latest of each name, as the tree is walked in its order
}

// An anchor is what an alias may name; node is nil while the anchor's own
// value is being built, where an alias to it would be a circle.
type anchor struct{ node *node }

// parseTree parses data into a tree. A syntax error ends it: there is one
// problem and no tree then. An empty file is a nil tree.
func parseTree(file string, data []byte, expand func(string) (string, *badValue), report func(place, string, string, string)) *node {
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
		report(b.start(doc[1]), "", "a second document", "a configuration is one YAML document, remove the line ---")
		return nil
	}
	return b.build(doc[0])
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
		message, hint := plainText(syntax.Message), ""
		if m := strings.ToLower(message); strings.Contains(m, "tab") || strings.Contains(message, `\t`) {
			hint = "YAML is indented with spaces"
		} else if strings.Contains(m, "non-map value") || strings.Contains(m, "map key-value is pre-defined") ||
			strings.Contains(m, "unexpected key name") {
			hint = "check the indentation and the colon after the key"
		}
		b.report(b.place(syntax.Token), "", "not valid YAML: "+message, hint)
	default:
		b.report(place{source: b.file}, "", "not valid YAML: "+plainText(err.Error()), "")
	}
}

// start returns the place where a value begins. Of a block map the library
// gives that of its first colon.
func (b *treeBuilder) start(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return b.place(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return b.place(n.Key.GetToken())
	}
	return b.place(n.GetToken())
}

// build converts one value.
func (b *treeBuilder) build(n ast.Node) *node {
	switch n := n.(type) {
	case nil:
		return &node{kind: null, at: place{source: b.file}}
	case *ast.NullNode:
		return &node{kind: null, at: b.place(n.GetToken())}
	case *ast.MappingNode:
		return b.mapping(n.Values, b.start(n))
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{n}, b.start(n))
	case *ast.SequenceNode:
		out := &node{kind: list, at: b.place(n.Start)}
		for _, v := range n.Values {
			out.items = append(out.items, b.build(v))
		}
		return out
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		b.anchors[name] = anchor{}
		v := b.build(n.Value)
		b.anchors[name] = anchor{node: v}
		return v
	case *ast.AliasNode:
		return b.alias(n)
	case *ast.TagNode:
		switch tag := n.Start.Value; tag {
		case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map":
			return b.build(n.Value)
		default:
			return spoilt(b.place(n.Start), "the tag "+quote(tag)+" is not known", "remove it, types come from the key")
		}
	case *ast.LiteralNode:
		return b.scalar(n.Start, n.Value.Value)
	case *ast.StringNode:
		return b.scalar(n.Token, n.Value)
	case *ast.MergeKeyNode:
		return b.scalar(n.Token, n.Token.Value)
	case ast.ScalarNode: // numbers and booleans: their text counts, so that 1.10 stays 1.10
		return b.scalar(n.GetToken(), n.GetToken().Value)
	}
	return spoilt(b.place(n.GetToken()), "not a value, a list or a map", "")
}

// spoilt returns a node that only holds a note.
func spoilt(at place, message, hint string) *node {
	return &node{kind: broken, at: at, notes: []note{{at, "", message, hint}}}
}

func (b *treeBuilder) scalar(tk *token.Token, text string) *node {
	at := b.place(tk)
	if !strings.Contains(text, "${") {
		return &node{kind: scalar, at: at, text: text, shown: text}
	}
	expanded, wrong := b.expand(text)
	if wrong != nil {
		return spoilt(at, wrong.Error(), string(wrong.hint))
	}
	return &node{kind: scalar, at: at, text: expanded, shown: text}
}

func (b *treeBuilder) alias(n *ast.AliasNode) *node {
	name := n.Value.GetToken().Value
	at := b.place(n.Start)
	switch a, ok := b.anchors[name]; {
	case !ok:
		return spoilt(at, "the alias *"+cut(name)+" names no anchor above it", "write &"+cut(name)+" before the value that is meant")
	case a.node == nil:
		return spoilt(at, "the alias *"+cut(name)+" stands inside its own anchor", "name another anchor, or write the value")
	default:
		return a.node
	}
}

func (b *treeBuilder) mapping(values []*ast.MappingValueNode, at place) *node {
	out := &node{kind: mapping, at: at}
	seen := map[string]place{}
	for _, v := range values {
		at := b.place(v.Key.GetToken())
		value := b.build(v.Value)
		var name string
		switch k := v.Key.(type) {
		case *ast.MergeKeyNode:
			out.notes = append(out.notes, note{at, "<<", "merge keys are not supported", "write the keys out, or use an alias for a whole value"})
			continue
		case *ast.MappingKeyNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
			out.notes = append(out.notes, note{at, "", "a key must be a plain word", ""})
			continue
		case *ast.StringNode:
			name = k.Value
		default:
			name = k.GetToken().Value
		}
		if first, twice := seen[name]; twice {
			out.notes = append(out.notes, note{at, name, "the key stands twice", fmt.Sprintf("it stands in line %d already, remove one", first.line)})
			continue
		}
		seen[name] = at
		if value.at.line == 0 {
			value.at = at
		}
		out.entries = append(out.entries, entry{key: name, at: at, value: value})
	}
	return out
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

// plainText cuts the text of a foreign error, which may hold pieces of the
// file, and escapes what is not to be printed.
func plainText(s string) string {
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	quoted := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
