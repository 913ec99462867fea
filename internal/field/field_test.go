package field

import (
	"net/http"
	"reflect"
	"testing"
)

func TestList(t *testing.T) {
	l := List{{"A", "1"}, {"B", "2"}, {"a", "3"}, {"SOAPAction", `""`}}
	if got := l.Get("b"); got != "2" {
		t.Errorf("Get: got %q", got)
	}
	if got := l.Get("C"); got != "" || l.Has("C") || l.Count("C") != 0 || l.Values("C") != nil {
		t.Errorf("a field that is not there: got %q", got)
	}
	if !l.Has("soapaction") || l.Has("soapactio") {
		t.Error("Has: got another answer")
	}
	if got := l.Values("A"); !reflect.DeepEqual(got, []string{"1", "3"}) || l.Count("A") != 2 {
		t.Errorf("Values: got %q", got)
	}
	c := l.Clone()
	c.Set("A", "9")
	if want := (List{{"A", "9"}, {"B", "2"}, {"SOAPAction", `""`}}); !reflect.DeepEqual(c, want) {
		t.Errorf("Set: got %v, want %v", c, want)
	}
	c.Set("D", "4")
	c.Add("B", "5")
	c.Del("A", "SoapAction")
	if want := (List{{"B", "2"}, {"D", "4"}, {"B", "5"}}); !reflect.DeepEqual(c, want) {
		t.Errorf("Set, Add, Del: got %v, want %v", c, want)
	}
	if l[0].Value != "1" || len(l) != 4 {
		t.Errorf("the list that was cloned has changed: %v", l)
	}
	c.Extend("E", "x")
	c.Extend("B", "x")
	if want := (List{{"B", "2, 5, x"}, {"D", "4"}, {"E", "x"}}); !reflect.DeepEqual(c, want) {
		t.Errorf("Extend: got %v, want %v", c, want)
	}
	empty := List{{"V", ""}}
	empty.Extend("V", "x")
	if got := empty.Get("V"); got != "x" {
		t.Errorf("Extend of an empty field: got %q", got)
	}
}

func TestMap(t *testing.T) {
	h := http.Header{"B": {"2", "3"}, "A": {"1"}, "soap": nil}
	l := Of(h)
	if want := (List{{"A", "1"}, {"B", "2"}, {"B", "3"}}); !reflect.DeepEqual(l, want) {
		t.Errorf("Of: got %v, want %v", l, want)
	}
	if got, want := l.HTTP(), (http.Header{"B": {"2", "3"}, "A": {"1"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("HTTP: got %v, want %v", got, want)
	}
	if Of(nil) != nil {
		t.Error("Of(nil): got a list")
	}
}

func TestAllocs(t *testing.T) {
	l := List{{"Content-Type", "text/xml"}, {"Accept", "*/*"}, {"Soapaction", ""}}
	if n := testing.AllocsPerRun(100, func() {
		if l.Get("SOAPAction") != "" || l.Has("Expect") || l.Count("accept") != 1 {
			t.Error("wrong")
		}
	}); n != 0 {
		t.Errorf("to look fields up allocates %v times", n)
	}
}
