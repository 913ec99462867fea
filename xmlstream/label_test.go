package xmlstream

import "testing"

func TestCharsetAgrees(t *testing.T) {
	tests := []struct {
		doc, label string
		want       bool
	}{
		{"<a/>", "", true},
		{"<a/>", "UTF8", true},
		{"<?xml version='1.0' encoding='utf-8'?><a/>", "utf-8", true},
		{"<?xml version='1.0' encoding='utf-8'?><a/>", "us-ascii", true},
		{"<?xml version='1.0' encoding='iso-8859-1'?><a/>", "utf-8", false},
		{"<?xml version='1.0' encoding='latin1'?><a/>", "iso-8859-1", true},
		{"<?xml version='1.0' encoding='latin1'?><a/>", "", true},
		{"<?xml version='1.0' encoding='nonsense'?><a/>", "utf-8", false},
		{"\xEF\xBB\xBF<a/>", "iso-8859-1", false},
		{"\xEF\xBB\xBF<?xml version='1.0' encoding='UTF-16'?><a/>", "", false},
		{"\xFF\xFE<\x00a\x00/\x00>\x00", "utf-16", true},
		{"\xFF\xFE<\x00a\x00/\x00>\x00", "utf-16be", false},
		{"\xFF\xFE<\x00a\x00/\x00>\x00", "utf-8", false},
		{marked("<?xml version='1.0' encoding='utf-16'?><a/>"), "utf-16", true},
		{marked("<?xml version='1.0' encoding='utf-8'?><a/>"), "utf-16", false},
	}
	for _, tt := range tests {
		_, charset, err := DecodeBytes([]byte(tt.doc), tt.label)
		if err != nil {
			t.Errorf("DecodeBytes(%q, %q): %v", tt.doc, tt.label, err)
			continue
		}
		if got := CharsetAgrees([]byte(tt.doc), tt.label, charset); got != tt.want {
			t.Errorf("CharsetAgrees(%q, %q, %q): got %t, want %t", tt.doc, tt.label, charset, got, tt.want)
		}
	}
}

// marked writes ASCII as UTF-16 with a byte order mark.
func marked(s string) string {
	b := []byte("\xFF\xFE")
	for i := range len(s) {
		b = append(b, s[i], 0)
	}
	return string(b)
}
