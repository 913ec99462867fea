package casetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// decides are the keys by which a variant's own expectation replaces that of
// the base instead of adding to it.
var decides = []string{"verdict", "to_client", "any_of", "status", "outcomes", "request_response_route"}

// evaluate asserts the machine-readable expectations of one outcome.
func evaluate(t *testing.T, r *run, o *outcome) {
	e := &evaluation{t: t, r: r, o: o}
	own, _ := r.variantExpect(o.name).(object)
	replaced := false
	for _, k := range decides {
		_, ok := own[k]
		replaced = replaced || ok
	}
	base := r.expect()
	if per, ok := base["variants"].(object); ok && o.name != "" {
		e.object("variants", per)
		replaced = true
	}
	if !replaced {
		e.object("", base)
	}
	if own != nil {
		e.object("variant "+o.name, own)
	}
	for _, p := range e.problems {
		t.Error(p)
	}
}

// An evaluation gathers what does not hold and claims what it looked at.
type evaluation struct {
	t        testing.TB
	r        *run
	o        *outcome
	problems []string
}

func (e *evaluation) failf(format string, a ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, a...))
}

// object looks at the keys of an expectation. Keys and texts that it does not
// know stay unclaimed, and so need a check of their own.
func (e *evaluation) object(path string, x object) {
	for _, k := range slices.Sorted(maps.Keys(x)) {
		p, v := join(path, k), x[k]
		switch k {
		case "verdict":
			e.verdict(p, v.(string))
		case "facts":
			e.facts(p, v)
		case "to_backend":
			if b, ok := v.(object); ok {
				e.backend(p, b)
			}
		case "to_client":
			if c, ok := v.(object); ok {
				e.client(p, c)
			}
		case "any_of":
			e.anyOf(p, v)
		case "allowed_alternatives":
			// SPEC.md chooses the main form, which is asserted; what else
			// would be allowed needs no assertion.
			e.r.cl.claim(p)
		}
	}
	if or, ok := x["or"].(object); ok {
		e.r.cl.claim(join(path, "status"))
		e.r.cl.claim(join(path, "or"))
		e.anyOf(join(path, "or"), []any{object{"status": x["status"]}, or})
		return
	}
	e.client(path, x)
}

// anyOf holds if one alternative holds. All of them count as looked at.
func (e *evaluation) anyOf(path string, v any) {
	var why []string
	for i, alt := range v.([]any) {
		x, ok := alt.(object)
		if !ok {
			return // prose: needs a check
		}
		sub := &evaluation{t: e.t, r: e.r, o: e.o}
		sub.object(join(path, fmt.Sprint(i)), x)
		if len(sub.problems) == 0 {
			e.r.cl.claim(path)
			return
		}
		why = append(why, sub.problems...)
	}
	e.r.cl.claim(path)
	e.failf("%s: no alternative holds:\n\t%s", path, strings.Join(why, "\n\t"))
}

func (e *evaluation) verdict(path, v string) {
	o := e.o
	switch {
	case v == "accept", v == "relay", v == "accept request.bin, reject every variant":
		if len(o.calls) != 1 || o.calls[0].Err != nil {
			e.failf("%s: the backend got %d requests, want one complete; the client got %s", path, len(o.calls), o.a)
		}
	case v == "reject":
		if len(o.calls) != 0 || o.a.Status < 400 {
			e.failf("%s: want a refusal and nothing at the backend, which got %d requests; the client got %s", path, len(o.calls), o.a)
		}
	case v == "gateway error":
		if o.a.Status < 500 {
			e.failf("%s: want a gateway error, got %s", path, o.a)
		}
	case v == "see variants":
	default:
		return
	}
	e.r.cl.claim(path)
}

func (e *evaluation) backend(path string, x object) {
	o := e.o
	if f, ok := x["forwarded"].(bool); ok {
		e.r.cl.claim(join(path, "forwarded"))
		if got := len(o.calls) == 1 && o.calls[0].Err == nil; got != f || !f && len(o.calls) > 0 {
			e.failf("%s: forwarded is %v (%d requests), want %v; the client got %s", path, got, len(o.calls), f, o.a)
		}
	}
	if b, ok := x["body"].(string); ok && strings.HasPrefix(b, "infoset-equal") && len(o.calls) == 1 {
		e.r.cl.claim(join(path, "body"))
		e.sameBody(path, o.calls[0].Body, o.calls[0].Fields.get("Content-Type"), o.doc, o.fields.get("Content-Type"))
	}
}

func (e *evaluation) sameBody(path string, got []byte, gotType string, want []byte, wantType string) {
	g, err := document(got, gotType)
	if err != nil {
		e.failf("%s: %v: %.300q", path, err, got)
		return
	}
	w, err := document(want, wantType)
	if err != nil {
		e.t.Fatalf("%s: the expected body itself: %v", path, err)
	}
	if gd, wd := dump(g.Root, nil), dump(w.Root, nil); gd != wd {
		e.failf("%s: infosets differ\n--- got\n%s--- want\n%s", path, gd, wd)
	}
}

// client looks at what the caller saw.
func (e *evaluation) client(path string, x object) {
	a := e.o.a
	for _, k := range slices.Sorted(maps.Keys(x)) {
		p, v := join(path, k), x[k]
		switch k {
		case "status":
			want, ok := statuses(v)
			if !ok {
				continue // prose: needs a check
			}
			if !slices.Contains(want, a.Status) {
				e.failf("%s: got status %d, want %v: %s", p, a.Status, want, a)
			}
		case "content_type":
			want := mediaType(strings.Fields(v.(string))[0])
			if got := mediaType(a.Fields.get("Content-Type")); got != want {
				e.failf("%s: got %q, want %q", p, got, want)
			}
			if strings.Contains(v.(string), "(") {
				continue // says more
			}
		case "fault":
			e.fault(p, v)
		case "header_block":
			e.headerBlock(p, v.(object))
			continue
		case "body":
			b, _ := v.(string)
			if !strings.HasPrefix(b, "infoset-equal to response.bin") {
				continue
			}
			e.sameBody(p, a.Body, a.Fields.get("Content-Type"), e.r.file(e.t, "response.bin"), "")
		case "any_of":
			if path == "to_client" || strings.HasSuffix(path, "/to_client") {
				e.anyOf(p, v)
			}
			continue
		default:
			continue
		}
		e.r.cl.claim(p)
	}
}

// statuses reads a number or a list of numbers.
func statuses(v any) (list []int, ok bool) {
	switch v := v.(type) {
	case float64:
		return []int{int(v)}, true
	case []any:
		for _, x := range v {
			f, ok := x.(float64)
			if !ok {
				return nil, false
			}
			list = append(list, int(f))
		}
		return list, true
	}
	return nil, false
}

func (e *evaluation) fault(path string, v any) {
	a := e.o.a
	f, err := readFault(a.Body, a.Fields.get("Content-Type"))
	want, ok := v.(object)
	switch {
	case v == nil || !ok:
		if f != nil {
			e.failf("%s: want no fault, got %s", path, a.Body)
		}
		return
	case f == nil:
		e.failf("%s: want a fault, got (%v) %s", path, err, a)
		return
	}
	for k, v := range want {
		s := v.(string)
		switch {
		case k == "version" && s == "as the request":
			if !bytes.Contains(e.o.doc, []byte(nsOf[f.Version])) {
				e.failf("%s: fault in SOAP %s", path, f.Version)
			}
		case k == "version":
			if f.Version != s {
				e.failf("%s: fault in SOAP %s, want %s", path, f.Version, s)
			}
		case k == "code" && strings.HasPrefix(s, "Server (1.1) / Receiver (1.2)"):
			if f.Code != "{"+ns11+"}Server" && f.Code != "{"+ns12+"}Receiver" {
				e.failf("%s: code %s", path, f.Code)
			}
		case k == "faultcode", k == "Code/Value":
			dotted := want["subcode_ok"] != nil && strings.HasPrefix(f.Code, s+".")
			if f.Code != s && !dotted {
				e.failf("%s: code %s, want %s", path, f.Code, s)
			}
		case k == "subcode_ok":
		default:
			e.failf("%s: the harness does not know %q", path, k)
		}
	}
}

// headerBlock looks for NotUnderstood or Upgrade in the gateway's fault. The
// cases say SHOULD; SPEC.md §3 promises both.
func (e *evaluation) headerBlock(path string, want object) {
	f, err := readFault(e.o.a.Body, e.o.a.Fields.get("Content-Type"))
	if f == nil {
		e.failf("%s: no fault (%v)", path, err)
		return
	}
	name := want["qname"].(string)
	e.r.cl.claim(join(path, "qname"))
	var block *item
	if f.Header != nil {
		for _, b := range f.Header.elements() {
			if b.Name.String() == name {
				block = b
			}
		}
	}
	if block == nil {
		e.failf("%s: no %s in %s", path, name, e.o.a.Body)
		return
	}
	for k, v := range want {
		s, p := fmt.Sprint(v), join(path, k)
		switch {
		case k == "attr(qname)":
			want := strings.TrimPrefix(s, "resolves to ")
			if got := block.resolve(block.Attrs[qname{"", "qname"}]); got != want {
				e.failf("%s: got %s, want %s", p, got, want)
			}
		case k == "contains" && strings.HasPrefix(s, "one SupportedEnvelope per supported version"):
			if got, want := supported(block), []string{"{" + ns11 + "}Envelope", "{" + ns12 + "}Envelope"}; !slices.Equal(got, want) {
				e.failf("%s: got %v, want %v", p, got, want)
			}
		default:
			continue
		}
		e.r.cl.claim(p)
	}
}

// supported are the resolved, sorted names of an Upgrade block.
func supported(upgrade *item) (names []string) {
	for _, s := range upgrade.elements() {
		if s.Name == (qname{ns12, "SupportedEnvelope"}) {
			names = append(names, s.resolve(s.Attrs[qname{"", "qname"}]))
		}
	}
	slices.Sort(names)
	return names
}
