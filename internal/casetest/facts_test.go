package casetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// facts asserts what a parser must find, on what left the gateway: the body at
// the backend, or the answer at the client where the case is about a reply.
// That the gateway itself read version, operation and action so is asserted by
// routes that demand them (see TestFactsRoute).
func (e *evaluation) facts(path string, v any) {
	x, ok := v.(object)
	if !ok {
		return // a list: the case has a driver and checks of its own
	}
	if x["not_a_soap_message"] == true {
		return // the case has a check of its own
	}
	body, ctype := e.o.a.Body, e.o.a.Fields.get("Content-Type")
	if x["is_fault"] == nil {
		if len(e.o.calls) != 1 {
			return // refused; the expectation is claimed where it is accepted
		}
		body, ctype = e.o.calls[0].Body, e.o.calls[0].Fields.get("Content-Type")
	}
	if x["body_bytes"] == 0.0 { // nothing, and so no fact of an envelope
		for k, want := range x {
			e.r.cl.claim(join(path, k))
			if k != "body_bytes" && want != nil || len(body) != 0 {
				e.failf("%s/%s: got %d octets, want %v", path, k, len(body), want)
			}
		}
		return
	}
	var parcel *parcel
	if mediaType(ctype) == "multipart/related" {
		var err error
		if parcel, err = openParcel(body, ctype); err != nil {
			e.failf("%s: %v", path, err)
			return
		}
		body, ctype = parcel.root.body, parcel.root.ctype
	}
	doc, err := document(body, ctype)
	if err != nil {
		e.failf("%s: %v", path, err)
		return
	}
	for k, want := range x {
		got, known := parcel.factOf(k, want)
		if !known {
			got, known = factOf(doc, body, ctype, k)
		}
		if !known {
			continue
		}
		p := join(path, k)
		e.r.cl.claim(p)
		if g, w := printJSON(got), printJSON(want); g != w {
			e.failf("%s: got %s, want %s", p, g, w)
		}
	}
}

func printJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// factOf reads one fact by its name in the cases.
func factOf(doc *tree, body []byte, ctype, key string) (got any, known bool) {
	env := doc.Root
	ns := env.Name.Space
	soapBody := env.child(ns, "Body")
	kind, arg, _ := strings.Cut(strings.TrimSuffix(key, ")"), "(")
	var el *item
	if list := doc.named(arg); len(list) == 1 {
		el = list[0]
	} else if local, ok := strings.CutPrefix(arg, "{}"); ok {
		for _, x := range doc.named(local) {
			if x.Name.Space == "" {
				el = x
			}
		}
	}
	switch kind {
	case "soap_version":
		for v, n := range nsOf {
			if n == ns {
				return v, true
			}
		}
		return ns, true
	case "soap_version_by_namespace":
		return map[string]string{ns11: "1.1", ns12: "1.2"}[ns], true
	case "body_qname":
		if soapBody == nil || len(soapBody.elements()) == 0 {
			return nil, true
		}
		return soapBody.elements()[0].Name.String(), true
	case "body_child_count":
		return len(soapBody.elements()), true
	case "header_qnames":
		names := []string{}
		if h := env.child(ns, "Header"); h != nil {
			for _, b := range h.elements() {
				names = append(names, b.Name.String())
			}
		}
		return names, true
	case "element_qnames_in_order":
		var names []string
		env.walk(func(x *item) { names = append(names, x.Name.String()) })
		return names, true
	case "charset":
		_, cs, agree, err := decodeText(body, labelOf(ctype))
		if err != nil || !agree {
			return fmt.Sprintf("%s, labels disagree, %v", cs, err), true
		}
		return cs, true
	case "text", "string_value":
		if arg == "" && soapBody != nil {
			return soapBody.text(), true
		}
		if el == nil {
			// text(name) without prefix: the element of that local name
			return nil, false
		}
		return el.text(), true
	case "codepoints", "text_codepoints":
		var points []int
		for _, r := range el.text() {
			points = append(points, int(r))
		}
		return points, true
	case "attr":
		return attrAnywhere(env, arg), true
	case "payload_sha256", "decoded_sha256":
		h := sha256.Sum256(body)
		return hex.EncodeToString(h[:]), true
	case "decoded_bytes":
		return len(body), true
	case "is_fault":
		return soapBody.child(ns, "Fault") != nil, true
	case "faultcode":
		c := soapBody.child(ns, "Fault").child("", "faultcode")
		return c.resolve(c.text()), true
	case "detail_child":
		return soapBody.child(ns, "Fault").child("", "detail").elements()[0].Name.String(), true
	case "Code/Value", "Subcode/Value":
		c := soapBody.child(ns, "Fault").child(ns, "Code")
		if kind == "Subcode/Value" {
			c = c.child(ns, "Subcode")
		}
		val := c.child(ns, "Value")
		return val.resolve(val.text()), true
	case "reason_langs":
		var langs []string
		for _, x := range soapBody.child(ns, "Fault").child(ns, "Reason").elements() {
			langs = append(langs, x.Attrs[qname{nsXML, "lang"}])
		}
		return langs, true
	case "xsi:type":
		return el.resolve(el.Attrs[qname{"http://www.w3.org/2001/XMLSchema-instance", "type"}]), true
	case "qname":
		name, _ := strings.CutSuffix(arg, " text")
		if list := doc.named(name); len(list) == 1 {
			return list[0].resolve(list[0].text()), true
		}
	case "encodingStyle":
		return soapBody.Attrs[qname{ns, "encodingStyle"}], true
	case "present":
		var names []string
		for _, x := range soapBody.elements()[0].elements() {
			names = append(names, x.Name.Local)
		}
		return names, true
	case "nil":
		m := map[string]bool{}
		for _, x := range soapBody.elements()[0].elements() {
			v := x.Attrs[qname{"http://www.w3.org/2001/XMLSchema-instance", "nil"}]
			m[x.Name.Local] = v == "true" || v == "1"
		}
		return m, true
	}
	return nil, false
}

func labelOf(ctype string) string { l, _ := param(ctype, "charset"); return l }

// attrAnywhere finds the value of an unqualified attribute.
func attrAnywhere(root *item, name string) (value string) {
	root.walk(func(x *item) {
		if v, ok := x.Attrs[qname{"", name}]; ok {
			value = v
		}
	})
	return value
}

// messageFacts are what a route can demand of a request.
type messageFacts struct {
	operation, action, version string
}

// demandable takes from the expectations of a case what a route condition can
// say: operation, action and version. ok is false if there is nothing.
func (c *testCase) demandable(v variant) (m messageFacts, ok bool) {
	read := func(x object) {
		if s, ok := x["soap_version"].(string); ok {
			m.version = s
		}
		if s, ok := x["body_qname"].(string); ok {
			m.operation = s
		}
		if s, ok := x["action"].(string); ok && s != "" && s != "see variants" {
			m.action = s
		}
	}
	f, _ := c.expect()["facts"].(object)
	read(f)
	own, _ := v.doc["expect"].(object)
	read(own)
	if _, has := own["action"]; has && own["action"] == nil {
		m.action = ""
	}
	for _, k := range decides {
		if _, replaced := own[k]; replaced && own["verdict"] != "accept" {
			return m, false
		}
	}
	accepted := c.expect()["verdict"] == "accept" || own["verdict"] == "accept" || c.ID == "19" && v.Name == ""
	return m, accepted && m != (messageFacts{}) && c.Transport == "http"
}
