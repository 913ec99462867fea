package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// ErrByHand: a file is written in a way that [AddItem] does not change.
var ErrByHand = errors.New("config: the file must be changed by hand")

// AddItem returns a configuration with one more item in a list of a section, such as
// sites.accept. Item and missing are lines of a YAML map, without indentation: item is
// what is added, missing is put into the section where it is new. All other octets of
// the file stay as they are. A list or a section in flow style ({…}, […]), and a file
// that is no map, are [ErrByHand].
func AddItem(data []byte, section, list string, item, missing []string) ([]byte, error) {
	src := string(data)
	docs, err := parseDocument(src)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	lines := splitLines(src)
	if len(docs) == 0 {
		return joinLines(append(lines, sectionLines(section, list, item, missing)...)), nil
	}
	root, ok := docs[0].(*ast.MappingNode)
	if len(docs) > 1 || !ok || root.IsFlowStyle {
		return nil, ErrByHand
	}
	sectionNode := valueOf(root, section)
	if sectionNode == nil {
		fresh := sectionLines(section, list, item, missing)
		if len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) != "" {
			fresh = append([]string{""}, fresh...)
		}
		return joinLines(append(lines, fresh...)), nil
	}
	body, ok := sectionNode.Value.(*ast.MappingNode)
	if !ok || body.IsFlowStyle || len(body.Values) == 0 {
		return nil, ErrByHand
	}
	listNode := valueOf(body, list)
	if listNode == nil {
		first := body.Values[0].Key.GetToken().Position
		at := first.Line - 1
		if _, scalar := body.Values[0].Value.(*ast.StringNode); scalar && body.Values[0].Value.GetToken().Position.Line == first.Line {
			at++ // the name of the section stays in front
		}
		return insertLines(lines, at, indent(first.Column-1, listLines(list, item))), nil
	}
	at := listNode.Key.GetToken().Position
	items, ok := listNode.Value.(*ast.SequenceNode)
	if !ok || items.IsFlowStyle || len(items.Values) == 0 {
		return nil, ErrByHand
	}
	dash := items.Start.Position
	if dash.Line == at.Line {
		return nil, ErrByHand
	}
	return insertLines(lines, dash.Line-1, indent(dash.Column-1, dashed(item))), nil
}

func valueOf(m *ast.MappingNode, key string) *ast.MappingValueNode {
	for _, v := range m.Values {
		if v.Key.GetToken().Value == key {
			return v
		}
	}
	return nil
}

func sectionLines(section, list string, item, missing []string) []string {
	out := append([]string{section + ":"}, indent(2, missing)...)
	return append(out, indent(2, listLines(list, item))...)
}

func listLines(list string, item []string) []string {
	return append([]string{list + ":"}, indent(2, dashed(item))...)
}

// dashed is an item of a list.
func dashed(item []string) []string {
	out := indent(2, item)
	out[0] = "- " + item[0]
	return out
}

func indent(n int, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.Repeat(" ", n) + l
	}
	return out
}

// splitLines cuts a text into lines without their ends.
func splitLines(src string) []string {
	if src == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(src, "\n"), "\n")
}

func joinLines(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func insertLines(lines []string, at int, fresh []string) []byte {
	out := append([]string(nil), lines[:at]...)
	out = append(out, fresh...)
	return joinLines(append(out, lines[at:]...))
}

// LoadSites reads the sites, the listeners and the names of the routes of a
// configuration that may have problems elsewhere: an invitation makes the
// certificate that a listener still lacks. Problems are those of sites and of the
// file as a whole.
func LoadSites(path string, data []byte, opt Options) (*Config, error) {
	l, err := newLoader(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	l.run(data, opt)
	var mine Problems
	for _, p := range l.problems {
		if p.Key == "" || p.Key == "sites" || strings.HasPrefix(p.Key, "sites.") {
			mine = append(mine, p)
		}
	}
	if len(mine) > 0 {
		return nil, mine.sort()
	}
	return l.cfg, nil
}

// IsName says whether a text can be the name of a site, a route or another thing of a
// configuration: [a-z][a-z0-9-]*, at most 63 octets.
func IsName(text string) bool { return isName(text) }
