package proxy

import (
	"strings"
	"testing"

	"soapway/soapcodec"
)

// TestSkippedNormalizationIsTold: what goes on as keep for its signature is
// counted (SPEC.md §3.6), also when a stream tells only at its end.
func TestSkippedNormalizationIsTold(t *testing.T) {
	const signed = `<d:Reference xmlns:d="http://www.w3.org/2000/09/xmldsig#" URI=""/>`
	small := strings.Replace(env11, "x<", signed+"<", 1)
	head := strings.Replace(env11, "<soap:Body", "<soap:Header><h xmlns='urn:h'>"+signed+"</h></soap:Header><soap:Body", 1)
	long := func(doc string) string {
		return strings.Replace(doc, "</p:Ask>", strings.Repeat("y", 100<<10)+"</p:Ask>", 1)
	}
	for name, c := range map[string]struct {
		doc  string
		mode soapcodec.Normalize
		want bool
	}{
		"whole":         {small, soapcodec.Envelope, true},
		"whole, keep":   {small, soapcodec.Keep, false},
		"not signed":    {env11, soapcodec.Envelope, false},
		"stream":        {long(head), soapcodec.Envelope, true},
		"stream, keep":  {long(head), soapcodec.Keep, false},
		"stream, plain": {long(env11), soapcodec.Envelope, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := new(observed)
			h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{{
				Name: "r", Normalize: c.mode, Limits: Limits{Buffer: 16 << 10},
				Backend: &Backend{Nodes: []Node{newNode("http://node.test/svc")}},
			}}}), Options{Observer: o})
			serve(t, h, exchange("text/xml", c.doc)).wantAnswer(t, 200, reply11)
			if len(o.exchanges) != 1 || o.exchanges[0].NormalizeSkipped != c.want {
				t.Errorf("got %+v, want NormalizeSkipped %v", o.exchanges, c.want)
			}
		})
	}
}
