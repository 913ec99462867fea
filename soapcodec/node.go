package soapcodec

// maxNotUnderstood bounds the NotUnderstood blocks of one fault.
const maxNotUnderstood = 64

// actOn processes a complete header block as a SOAP node in role next that
// understands none (SOAP 1.2 Part 1 §2.6, §2.7.2; SOAP 1.1 §4.2.2, §4.2.3): a
// mandatory one is remembered and faulted at the end of Header, so that the
// fault names all of them; an optional one ends here, unless it asks to be
// relayed.
func (d *Decoder) actOn(b *HeaderBlock) {
	if !b.Next(d.facts.Version) {
		return
	}
	switch {
	case b.MustUnderstand:
		if len(d.notUnderstood) < maxNotUnderstood {
			d.notUnderstood = append(d.notUnderstood, b.Name)
		}
	case !b.Relay:
		d.edits.removeBlock(b.Start, b.End)
	}
}
