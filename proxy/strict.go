package proxy

import (
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// hearCharset keeps what a strict route needs to know of the message as it was
// received; raw are its first octets.
func (c *call) hearCharset(raw []byte, charset string) {
	if c.t.strict {
		c.charset, c.agrees = charset, xmlstream.CharsetAgrees(raw, c.ct.Charset, charset)
	}
}

// checkStrict applies the rules about what surrounds the envelope; those about
// the envelope are the decoder's.
func (c *call) checkStrict() error {
	if !c.route.Strict {
		return nil
	}
	head := soapcodec.StrictHead{
		Version: c.version, ContentType: c.ct, SOAPAction: c.ex.Header.Values(soapActionKey), Framed: c.ex.Framed,
		Charset: c.charset, Agrees: c.agrees,
	}
	if fault := head.Check(); fault != nil {
		return fault
	}
	return nil
}
