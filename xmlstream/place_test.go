package xmlstream

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// The place of a fault, wherever the window was when it was found.
func TestPlace(t *testing.T) {
	tests := []struct {
		doc          string
		line, column int
		path         string
	}{
		{"<a>&</a>", 1, 4, "/a"},
		{"<a>\n&</a>", 2, 1, "/a"},
		{"<a>\n\n  &</a>", 3, 3, "/a"},
		{"<a>\r\n&</a>", 2, 1, "/a"},
		{"<a>\r&</a>", 2, 1, "/a"},
		{"<a>\r\r\n\n&</a>", 4, 1, "/a"},
		{"<a>\r\n\r x&</a>", 3, 3, "/a"},
		{"<a>\u20AC&</a>", 1, 7, "/a"},
		{"\uFEFF<a>&</a>", 1, 7, "/a"},
		{"<a\nb='c'\nd='&'/>", 3, 4, ""},
		{"<p:a xmlns:p='u'><b>\n<c/>\n<d></b>", 3, 4, "/p:a/b/d"},
		{"<a><b/>&</a>", 1, 8, "/a"},
		{"<a><b></b>&</a>", 1, 11, "/a"},
		{"<a/>\n\nx", 3, 1, ""},
		{"<a>\n", 2, 1, "/a"},
		{"<a>\r", 2, 1, "/a"},
		{"", 1, 1, ""},
		{"<?xml version='1.0'?>\n<!--\n\n-->\n<a b='c' b='d'/>", 5, 10, ""},
		{"<a>" + strings.Repeat("0123456789\n", 5000) + "& ", 5001, 1, "/a"},
		{"<a>" + strings.Repeat("0123456789\r\n", 5000) + "& ", 5001, 1, "/a"},
		{"<a>" + strings.Repeat("0123456789\r", 5000) + "& ", 5001, 1, "/a"},
		{"<a>" + strings.Repeat("<b\n>\r\n</b\r>", 5000) + "</b>", 15001, 2, "/a"},
		{"<a>" + strings.Repeat("x", 70000) + "& ", 1, 70004, "/a"},
	}
	for _, tt := range tests {
		for _, src := range sources {
			s := NewScanner(Limits{})
			src.reset(s, []byte(tt.doc))
			se, ok := errors.AsType[*SyntaxError](drain(s))
			if !ok {
				t.Fatalf("Next(%.40q) over %s: no fault", tt.doc, src.name)
			}
			if se.Line != tt.line || se.Column != tt.column || se.Path != tt.path {
				t.Errorf("Next(%.40q) over %s: got %d:%d %s, want %d:%d %s", tt.doc, src.name, se.Line, se.Column, se.Path, tt.line, tt.column, tt.path)
			}
		}
	}
}

// Position and Fault speak of the current token.
func TestPosition(t *testing.T) {
	doc := "<a>\n <b\n>x</b\n></a>"
	want := "start 1:1 /a\ntext 1:4 /a\nstart 2:2 /a/b\ntext 3:2 /a/b\nend 3:3 /a/b\nend 4:2 /a\n"
	reason := errors.New("not to my taste")
	for _, src := range sources {
		s := NewScanner(Limits{})
		src.reset(s, []byte(doc))
		var got strings.Builder
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			line, column := s.Position()
			fmt.Fprintf(&got, "%v %d:%d %s\n", k, line, column, s.Path())
			f := s.Fault(reason)
			if f.Line != line || f.Column != column || f.Path != s.Path() || f.Offset != s.Offset() || !errors.Is(f, reason) {
				t.Errorf("Fault over %s: got %v at %d:%d", src.name, f, line, column)
			}
		}
		if got.String() != want {
			t.Errorf("Position over %s: got\n%s\nwant\n%s", src.name, got.String(), want)
		}
	}
}

func TestErrorText(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{result("<a>\n</b>", Limits{}), `xmlstream: 2:1 (offset 4) in "/a": end tag does not match start tag`},
		{result("", Limits{}), `xmlstream: 1:1 (offset 0): unexpected end of document`},
		{result("<a><b/></a>", Limits{Depth: 1}), `xmlstream: 1:4 (offset 3) in "/a": limit depth of 1 exceeded`},
		{
			result("<"+strings.Repeat("n", 120)+">\x00", Limits{}),
			`xmlstream: 1:123 (offset 122) in "…` + strings.Repeat("n", 100) + `": character not allowed in XML`,
		},
	}
	for _, tt := range tests {
		if tt.err.Error() != tt.want {
			t.Errorf("Error: got %s, want %s", tt.err, tt.want)
		}
	}
}
