package soapcodec

import (
	"fmt"
	"strings"
)

// dump renders facts, a line each, without what is empty.
func dump(f *Facts) string {
	var out strings.Builder
	line := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" && s != "false" && s != "0" && s != "{}" {
			fmt.Fprintf(&out, "%s: %s\n", name, s)
		}
	}
	line("version", f.Version)
	line("header", f.HasHeader)
	for i := range f.Headers {
		b := &f.Headers[i]
		fmt.Fprintf(&out, "block: %v", b.Name)
		if b.Role != "" {
			fmt.Fprintf(&out, " role=%q", b.Role)
		}
		for _, flag := range []struct {
			name string
			set  bool
		}{{"next", b.Next(f.Version)}, {"mandatory", b.MustUnderstand}, {"relay", b.Relay}} {
			if flag.set {
				out.WriteString(" " + flag.name)
			}
		}
		out.WriteByte('\n')
	}
	line("operation", f.Operation)
	line("children", f.BodyChildren)
	line("action", f.Action)
	line("message id", f.MessageID)
	line("message ids", f.MessageIDs)
	line("relates to", f.RelatesTo)
	line("to", f.To)
	line("reply to", f.ReplyTo)
	line("signed", f.Signed)
	line("normalize skipped", f.NormalizeSkipped)
	if f.Fault != nil {
		line("fault", f.Fault.Code)
		for _, s := range f.Fault.Subcodes {
			line("subcode", s)
		}
		line("reason", f.Fault.Reason)
		line("node", f.Fault.Node)
		line("role", f.Fault.Role)
	}
	return out.String()
}

// dumpPlaces is dump with the offsets of header blocks.
func dumpPlaces(f *Facts) string {
	var out strings.Builder
	out.WriteString(dump(f))
	for _, b := range f.Headers {
		out.WriteString(fmt.Sprintf("at %d-%d\n", b.Start, b.End))
	}
	return out.String()
}
