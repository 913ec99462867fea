package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"soapway/xmlstream"
)

// TestOutputs exercises the scanner on the valid documents of the W3C suite, all
// of which have a DOCTYPE, which it refuses. A reader of internal subsets, which
// nothing but this test has, rewrites each document to one without: entities are
// replaced, attributes get their defaults. What the scanner then reads must be
// what the suite says, in its canonical form.
func TestOutputs(t *testing.T) {
	files := suite(t)
	agree := 0
	for _, test := range suiteTests(t, files) {
		if test.output == "" || test.entities != "none" || test.colons {
			continue // no answer to compare with, or in files outside of the document
		}
		doc, _, err := xmlstream.DecodeBytes(readFile(t, files, test.path), "")
		if err != nil {
			t.Errorf("%s %s: %v", test.id, test.path, err)
			continue
		}
		plain, err := withoutDoctype(string(bytes.TrimPrefix(doc, []byte("\uFEFF"))))
		if err != nil {
			t.Errorf("%s %s: %v", test.id, test.path, err)
			continue
		}
		got, err := firstForm([]byte(plain))
		// Where there are notations the answer declares them, which is no matter of a scanner's.
		want := notations.ReplaceAllString(string(readFile(t, files, test.output)), "")
		if err != nil || got != want {
			t.Errorf("%s %s as %q: got %v\n%s\nwant\n%s", test.id, test.path, plain, err, got, want)
			continue
		}
		agree++
	}
	if agree != 247 {
		t.Errorf("%d documents agree, want 247", agree)
	}
	t.Logf("W3C suite, documents with a DOCTYPE and no external entities, rewritten without\n%d read as the suite says", agree)
}

var notations = regexp.MustCompile(`(?s)<!DOCTYPE [^>]*\[.*?\n\]>\r?\n`)

// firstForm is the canonical form in which the suite gives its answers: no
// comments, attributes in order of their names, and markup characters, tabs and
// line ends escaped everywhere.
func firstForm(doc []byte) (string, error) {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	var out strings.Builder
	var text []byte
	for {
		kind, err := s.Next()
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		switch kind {
		case xmlstream.Start:
			out.WriteString("<" + written(s.Name()))
			attrs := slices.Clone(s.Attrs())
			slices.SortFunc(attrs, func(a, b xmlstream.Attr) int { return strings.Compare(written(a.Name), written(b.Name)) })
			for i := range attrs {
				out.WriteString(" " + written(attrs[i].Name) + `="` + formEscapes.Replace(attrs[i].Value()) + `"`)
			}
			out.WriteString(">")
		case xmlstream.End:
			out.WriteString("</" + written(s.Name()) + ">")
		case xmlstream.Text, xmlstream.CDATA:
			if s.Depth() > 0 {
				text = s.AppendText(text[:0])
				out.WriteString(formEscapes.Replace(string(text)))
			}
		case xmlstream.ProcInst:
			if s.Partial() {
				return "", errors.New("a processing instruction in pieces")
			}
			data := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(s.Text()))
			out.WriteString("<?" + string(s.Name().Local) + " " + data + "?>")
		}
	}
}

var formEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\t", "&#9;", "\n", "&#10;", "\r", "&#13;")

func written(n xmlstream.Name) string {
	if len(n.Prefix) > 0 {
		return string(n.Prefix) + ":" + string(n.Local)
	}
	return string(n.Local)
}

// A subset is what the declarations of an internal subset say.
type subset struct {
	general, parameter map[string]string // internal entities: replacement texts
	attributes         map[string][]attributeDef
	instructions       strings.Builder // the processing instructions in it
}

type attributeDef struct {
	name      string
	tokenized bool    // any type but CDATA
	value     *string // the default, normalized; nil if there is none
}

// errSubset is for what this reader does not understand. It is meant for
// documents that are valid, and judges none.
var errSubset = errors.New("internal subset not understood")

// withoutDoctype rewrites a document.
func withoutDoctype(doc string) (string, error) {
	d := &subset{general: map[string]string{}, parameter: map[string]string{}, attributes: map[string][]attributeDef{}}
	prolog, rest := "", doc
	for !strings.HasPrefix(rest, "<!DOCTYPE") {
		n := miscellany(rest)
		if n == 0 {
			return "", errSubset
		}
		prolog, rest = prolog+rest[:n], rest[n:]
	}
	// The name, and an external identifier, end at the subset or the declaration's end.
	for n := len("<!DOCTYPE"); ; {
		switch c := rest[n]; {
		case c == '\'' || c == '"':
			n += 2 + strings.IndexByte(rest[n+1:], c)
			continue
		case c == '[':
			left, err := d.read(rest[n+1:])
			if err != nil {
				return "", err
			}
			rest = left
		case c != '>':
			n++
			continue
		default:
			rest = rest[n:]
		}
		break
	}
	_, after, ok := strings.Cut(rest, ">")
	if !ok {
		return "", errSubset
	}
	var out strings.Builder
	out.WriteString(prolog + d.instructions.String())
	err := d.content(&out, after, 0)
	return out.String(), err
}

// miscellany is the length of what may stand before a DOCTYPE at the start of s.
func miscellany(s string) int {
	for open, end := range map[string]string{"<!--": "-->", "<?": "?>"} {
		if strings.HasPrefix(s, open) {
			if n := strings.Index(s[len(open):], end); n >= 0 {
				return len(open) + n + len(end)
			}
		}
	}
	return len(s) - len(strings.TrimLeft(s, " \t\r\n"))
}

// read takes declarations in, up to the "]" that ends the subset or the end of s,
// and returns what is left.
func (d *subset) read(s string) (left string, err error) {
	for s != "" {
		if n := miscellany(s); n > 0 {
			if s[0] == '<' && s[1] == '?' {
				d.instructions.WriteString(s[:n])
			}
			s = s[n:]
			continue
		}
		if s[0] == ']' {
			return s[1:], nil
		}
		if s[0] == '%' {
			name, rest, ok := strings.Cut(s[1:], ";")
			text, known := d.parameter[name]
			if !ok || !known {
				return "", fmt.Errorf("%w: %%%s;", errSubset, name)
			}
			if _, err := d.read(text); err != nil {
				return "", err
			}
			s = rest
			continue
		}
		words, rest, err := declaration(s)
		if err != nil {
			return "", err
		}
		switch s = rest; words[0] {
		case "<!ENTITY":
			d.entity(words[1:])
		case "<!ATTLIST":
			if err := d.attlist(words[1:]); err != nil {
				return "", err
			}
		case "<!ELEMENT", "<!NOTATION":
		default:
			return "", fmt.Errorf("%w: %s", errSubset, words[0])
		}
	}
	return "", nil
}

// declaration cuts s into words, up to its ">": literals with their quotes,
// groups in parentheses with them.
func declaration(s string) (words []string, rest string, err error) {
	for s != "" {
		s = strings.TrimLeft(s, " \t\r\n")
		n := 0
		switch {
		case s == "":
			continue
		case s[0] == '>':
			return words, s[1:], nil
		case s[0] == '\'' || s[0] == '"':
			n = strings.IndexByte(s[1:], s[0]) + 2
		case s[0] == '(':
			n = strings.IndexByte(s, ')') + 1
		default:
			n = strings.IndexAny(s, " \t\r\n>'\"(")
			if n == 0 {
				n = 1
			}
		}
		if n <= 1 && s[0] != '%' && (n < 1 || strings.ContainsRune("'\"(", rune(s[0]))) {
			return nil, "", errSubset
		}
		words, s = append(words, s[:n]), s[n:]
	}
	return nil, "", errSubset
}

// entity declares what has a literal value, unless it is declared already.
func (d *subset) entity(words []string) {
	into := d.general
	if words[0] == "%" {
		into, words = d.parameter, words[1:]
	}
	name, literal := words[0], words[1]
	if _, known := into[name]; known || literal[0] != '\'' && literal[0] != '"' {
		return
	}
	into[name] = characters(lineEnds.Replace(literal[1 : len(literal)-1]))
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// characters replaces the character references in s and no others.
func characters(s string) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(s, "&#")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		ref, rest, _ := strings.Cut(after, ";")
		var r rune
		format := "%d"
		if strings.HasPrefix(ref, "x") {
			ref, format = ref[1:], "%x"
		}
		fmt.Sscanf(ref, format, &r)
		out.WriteRune(r)
		s = rest
	}
}

func (d *subset) attlist(words []string) error {
	element, words := words[0], words[1:]
	for len(words) > 0 {
		if len(words) < 3 {
			return errSubset
		}
		def := attributeDef{name: words[0], tokenized: words[1] != "CDATA"}
		words = words[2:]
		if words[0][0] == '(' { // behind NOTATION
			words = words[1:]
		}
		if words[0] == "#FIXED" {
			words = words[1:]
		}
		if literal := words[0]; literal[0] != '#' {
			value, err := d.value(literal[1:len(literal)-1], def.tokenized)
			if err != nil {
				return err
			}
			def.value = &value
		}
		words = words[1:]
		if !slices.ContainsFunc(d.attributes[element], func(other attributeDef) bool { return other.name == def.name }) {
			d.attributes[element] = append(d.attributes[element], def)
		}
	}
	return nil
}

// deepest bounds entities in entities.
const deepest = 20

// content writes what stands behind the DOCTYPE, or is the text of an entity.
func (d *subset) content(out *strings.Builder, s string, depth int) error {
	if depth > deepest {
		return errSubset
	}
	for s != "" {
		n := strings.IndexAny(s, "<&")
		if n < 0 {
			n = len(s)
		}
		text := s[:n]
		if depth > 0 { // a CR in an entity is one that was meant
			text = strings.ReplaceAll(text, "\r", "&#13;")
		}
		out.WriteString(text)
		if s = s[n:]; s == "" {
			break
		}
		switch {
		case strings.HasPrefix(s, "<![CDATA["):
			n = strings.Index(s, "]]>") + 3
		case strings.HasPrefix(s, "<!--"), strings.HasPrefix(s, "<?"):
			n = miscellany(s)
		case strings.HasPrefix(s, "</"):
			n = strings.IndexByte(s, '>') + 1
		case s[0] == '<':
			rest, err := d.startTag(out, s)
			if err != nil {
				return err
			}
			s = rest
			continue
		default:
			n = strings.IndexByte(s, ';') + 1
			if n == 0 {
				return errSubset
			}
			if text, ok := d.general[s[1:n-1]]; ok {
				if err := d.content(out, text, depth+1); err != nil {
					return err
				}
				s = s[n:]
				continue
			}
		}
		if n <= 0 {
			return errSubset
		}
		out.WriteString(s[:n])
		s = s[n:]
	}
	return nil
}

// startTag writes the tag at the start of s, as it is if no declaration says
// anything about it.
func (d *subset) startTag(out *strings.Builder, s string) (rest string, err error) {
	const blanks = " \t\r\n"
	n := strings.IndexAny(s, blanks+"/>")
	name := s[1:n]
	out.WriteString(s[:n])
	defs := d.attributes[name]
	seen := map[string]bool{}
	for s = s[n:]; ; {
		trimmed := strings.TrimLeft(s, blanks)
		if trimmed == "" {
			return "", errSubset
		}
		if trimmed[0] == '/' || trimmed[0] == '>' {
			for _, def := range defs {
				if def.value != nil && !seen[def.name] {
					fmt.Fprintf(out, ` %s="%s"`, def.name, xmlstream.AppendEscapedAttr(nil, *def.value))
				}
			}
			end := strings.IndexByte(s, '>') + 1
			out.WriteString(s[:end])
			return s[end:], nil
		}
		attribute, _, _ := strings.Cut(trimmed, "=")
		attribute = strings.TrimRight(attribute, blanks)
		open := strings.IndexAny(s, `'"`)
		if open < 0 {
			return "", errSubset
		}
		length := strings.IndexByte(s[open+1:], s[open])
		if length < 0 {
			return "", errSubset
		}
		raw := s[open+1 : open+1+length]
		seen[attribute] = true
		tokenized := slices.ContainsFunc(defs, func(def attributeDef) bool { return def.name == attribute && def.tokenized })
		if tokenized || d.refers(raw) {
			value, err := d.value(raw, tokenized)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(out, ` %s="%s"`, attribute, xmlstream.AppendEscapedAttr(nil, value))
		} else {
			out.WriteString(s[:open+length+2])
		}
		s = s[open+length+2:]
	}
}

// refers reports whether a value as written has a reference to a declared
// entity.
func (d *subset) refers(raw string) bool {
	for name := range d.general {
		if strings.Contains(raw, "&"+name+";") {
			return true
		}
	}
	return false
}

// value normalizes an attribute's value (XML 1.0 §3.3.3).
func (d *subset) value(raw string, tokenized bool) (string, error) {
	var out strings.Builder
	if err := d.appendValue(&out, lineEnds.Replace(raw), 0); err != nil {
		return "", err
	}
	v := out.String()
	if tokenized {
		v = strings.Join(strings.FieldsFunc(v, func(r rune) bool { return r == ' ' }), " ")
	}
	return v, nil
}

func (d *subset) appendValue(out *strings.Builder, s string, depth int) error {
	if depth > deepest {
		return errSubset
	}
	predefined := map[string]string{"lt": "<", "gt": ">", "amp": "&", "apos": "'", "quot": `"`}
	for s != "" {
		n := strings.IndexByte(s, '&')
		if n < 0 {
			n = len(s)
		}
		out.WriteString(strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(s[:n]))
		if s = s[n:]; s == "" {
			break
		}
		ref, rest, ok := strings.Cut(s[1:], ";")
		if !ok {
			return errSubset
		}
		s = rest
		if strings.HasPrefix(ref, "#") {
			out.WriteString(characters("&" + ref + ";"))
			continue
		}
		if text, ok := d.general[ref]; ok && predefined[ref] == "" {
			if err := d.appendValue(out, text, depth+1); err != nil {
				return err
			}
			continue
		}
		if predefined[ref] == "" {
			return fmt.Errorf("%w: &%s;", errSubset, ref)
		}
		out.WriteString(predefined[ref])
	}
	return nil
}
