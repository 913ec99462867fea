package proxy

import "soapway/internal/field"

// Resolve returns the name of the route that a message takes by its head and its
// action, "" for none: what routing alone costs, without a message to read
// (BENCH.md §2.6). header may be nil; routes that ask for an operation are not
// met.
func (t *Table) Resolve(host, target, action string, header field.List) string {
	aim, err := parseTarget(target)
	if err != nil {
		return ""
	}
	c := candidates{list: t.index.find(aim.path), head: headFacts{host: host, header: header}}
	if r := c.choose(&bodyFacts{action: action}); r != nil {
		return r.Name
	}
	return ""
}
