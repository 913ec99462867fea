package proxy

import (
	"strings"
	"testing"
)

// TestMaskQuery: values of parameters are hidden by their names, however these are
// written; all else keeps its octets.
func TestMaskQuery(t *testing.T) {
	hide := func(name string) bool { return strings.Contains(name, "key") }
	for query, want := range map[string]string{
		"":                       "",
		"a=1":                    "a=1",
		"key=1":                  "key=***",
		"a=1&key=2&b":            "a=1&key=***&b",
		"k%65y=1;a=%41":          "k%65y=***;a=%41",
		"key=1&key=2":            "key=***&key=***",
		"key=a=b":                "key=***",
		"key=&key&=key":          "key=&key&=key",
		"%zzkey=1":               "%zzkey=***",
		"wsdl&&x;;":              "wsdl&&x;;",
		"a+key=\xff\"&b=\xff\"'": "a+key=***&b=\xff\"'",
	} {
		got, n := maskQuery(query, hide)
		if got != want || n != strings.Count(want, "***") {
			t.Errorf("maskQuery(%q): got %q, %d, want %q", query, got, n, want)
		}
	}
}

// TestMaskStored: the query is masked in what is stored too, and counted.
func TestMaskStored(t *testing.T) {
	meta := []byte(`{"v":1,"soap":"1.1","query":"id=1&key=2","has_query":true,"header":[["X-Key","3"],["Accept","4"]]}`)
	masked, n, err := MaskStored(meta, func(name string) bool { return strings.EqualFold(name, "key") || name == "X-Key" })
	if want := `{"v":1,"soap":"1.1","has_query":true,"query":"id=1&key=***","header":[["X-Key","***"],["Accept","4"]]}`; err != nil || n != 2 || string(masked) != want {
		t.Errorf("got %s, %d, %v, want %s", masked, n, err, want)
	}
	if masked, n, err := MaskStored(meta, func(string) bool { return false }); err != nil || n != 0 || string(masked) != string(meta) {
		t.Errorf("nothing is hidden: got %s, %d, %v", masked, n, err)
	}
}
