package soapcodec

import "strings"

// TranslatePackage makes the Content-Type field of a message with attachments
// that of version v: type and start-info name the media type of an envelope of
// v, and action, which only SOAP 1.2 has, is the one given; "" is none. action
// must not hold a quote. Every other octet stays.
func TranslatePackage(field string, v Version, action string) string {
	xop, info := false, false
	out := rewriteParameters(field, func(p parameter) (with string, keep bool) {
		switch strings.ToLower(p.name) {
		case "action":
			return "", false
		case "type":
			if xop = essence(p.unquoted()) == typeXOP; xop {
				return p.value, true
			}
			return `"` + v.MediaType() + `"`, true
		case "start-info":
			info = true
			return `"` + v.MediaType() + `"`, true
		}
		return p.value, true
	})
	if xop && !info { // MTOM §3.2 asks for it
		out += `; start-info="` + v.MediaType() + `"`
	}
	if v == V12 && action != "" {
		out += `; action="` + action + `"`
	}
	return out
}

// translateRoot is TranslatePackage for the Content-Type of the root: the media
// type itself, or the type parameter of application/xop+xml.
func translateRoot(field string, v Version) string {
	n := typeEnd(field)
	xop := essence(field) == typeXOP
	if !xop {
		lead := field[:len(field)-len(strings.TrimLeft(field, blanks))]
		field = lead + v.MediaType() + field[n:]
	}
	return rewriteParameters(field, func(p parameter) (string, bool) {
		switch strings.ToLower(p.name) {
		case "action":
			return "", false
		case "type":
			if xop {
				return `"` + v.MediaType() + `"`, true
			}
		}
		return p.value, true
	})
}

// rewriteParameters gives each parameter of a field the value that change
// returns, as it is to be written, or takes it out.
func rewriteParameters(field string, change func(p parameter) (with string, keep bool)) string {
	var out strings.Builder
	at := 0
	for p := range parameters(field) {
		with, keep := change(p)
		if !keep {
			out.WriteString(field[at : at+strings.LastIndexByte(field[at:p.start], ';')])
		} else {
			out.WriteString(field[at:p.start] + with)
		}
		at = p.end
	}
	out.WriteString(field[at:])
	return out.String()
}
