package xmlstream

import (
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	tests := []struct {
		name         Name
		want         string
		space, local string
	}{
		{Name{Local: []byte("a")}, "a", "", "a"},
		{Name{Prefix: []byte("p"), Local: []byte("a"), Space: []byte("u")}, "{u}a", "u", "a"},
		{Name{}, "", "", ""},
	}
	for _, tt := range tests {
		if got := tt.name.String(); got != tt.want {
			t.Errorf("String: got %q, want %q", got, tt.want)
		}
		if !tt.name.Is(tt.space, tt.local) || tt.name.Is(tt.space+"x", tt.local) || tt.name.Is(tt.space, tt.local+"x") {
			t.Errorf("Is(%q, %q) of %v is wrong", tt.space, tt.local, tt.name)
		}
	}
}

func TestKindString(t *testing.T) {
	seen := map[string]bool{}
	for k := range ProcInst + 2 {
		seen[k.String()] = true
	}
	if len(seen) != int(ProcInst)+1 || !seen["none"] || !seen["procinst"] {
		t.Errorf("String: the kinds are called %v", seen)
	}
}

func TestEscape(t *testing.T) {
	tests := []struct{ in, text, attr string }{
		{"", "", ""},
		{"plain", "plain", "plain"},
		{"<a&b>", "&lt;a&amp;b&gt;", "&lt;a&amp;b&gt;"},
		{"\"'", "\"'", "&quot;'"},
		{"\t\n\r", "\t\n&#13;", "&#9;&#10;&#13;"},
		{"]]>", "]]&gt;", "]]&gt;"},
		{"\x00\x1F\x7F", "\uFFFD\uFFFD\x7F", "\uFFFD\uFFFD\x7F"},
		{"\xFF\uFFFF\uFFFD\u20AC\U0001F600", "\uFFFD\uFFFD\uFFFD\u20AC\U0001F600", "\uFFFD\uFFFD\uFFFD\u20AC\U0001F600"},
	}
	for _, tt := range tests {
		if got := string(AppendEscapedText([]byte("x"), tt.in)); got != "x"+tt.text {
			t.Errorf("AppendEscapedText(%q): got %q, want %q", tt.in, got, "x"+tt.text)
		}
		if got := string(AppendEscapedAttr([]byte("x"), tt.in)); got != "x"+tt.attr {
			t.Errorf("AppendEscapedAttr(%q): got %q, want %q", tt.in, got, "x"+tt.attr)
		}
	}
}

// The classes of names against the productions of XML 1.0 Fifth Edition §2.3,
// written out.
func TestNameClasses(t *testing.T) {
	start := [][2]rune{
		{0xC0, 0xD6},
		{0xD8, 0xF6},
		{0xF8, 0x2FF},
		{0x370, 0x37D},
		{0x37F, 0x1FFF},
		{0x200C, 0x200D},
		{0x2070, 0x218F},
		{0x2C00, 0x2FEF},
		{0x3001, 0xD7FF},
		{0xF900, 0xFDCF},
		{0xFDF0, 0xFFFD},
		{0x10000, 0xEFFFF},
	}
	more := [][2]rune{{0xB7, 0xB7}, {0x300, 0x36F}, {0x203F, 0x2040}}
	chars := [][2]rune{{0x9, 0xA}, {0xD, 0xD}, {0x20, 0xD7FF}, {0xE000, 0xFFFD}, {0x10000, 0x10FFFF}}
	in := func(r rune, ranges [][2]rune) bool {
		for _, x := range ranges {
			if x[0] <= r && r <= x[1] {
				return true
			}
		}
		return false
	}
	for r := rune(0); r <= 0x110001; r++ {
		if got, want := isChar(r), in(r, chars); got != want {
			t.Errorf("isChar(%#x): got %v, want %v", r, got, want)
		}
		if r < 0x80 {
			continue
		}
		if got, want := isNameStart(r), in(r, start); got != want {
			t.Errorf("isNameStart(%#x): got %v, want %v", r, got, want)
		}
		if got, want := isNameChar(r), in(r, start) || in(r, more); got != want {
			t.Errorf("isNameChar(%#x): got %v, want %v", r, got, want)
		}
	}
}

// sequence agrees with unicode/utf8 on every lead and second octet, and on the
// borders of the others.
func TestSequence(t *testing.T) {
	borders := []byte{0x00, 0x3C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF}
	check := func(b ...byte) {
		n := sequenceLen(b[0])
		r, size := utf8.DecodeRune(b)
		want := rune(-1)
		if size == n && n > 1 {
			want = r
		}
		got := rune(-1)
		if n > 1 && n <= len(b) {
			got = sequence(b[:n])
		}
		if got != want {
			t.Fatalf("sequence(% x): got %#x, want %#x", b, got, want)
		}
	}
	for lead := 0x80; lead < 0x100; lead++ {
		for second := range 0x100 {
			for _, third := range borders {
				for _, fourth := range borders {
					check(byte(lead), byte(second), third, fourth)
				}
			}
		}
	}
}
