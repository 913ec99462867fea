package xmlstream

import "bytes"

// CharsetAgrees reports whether what a document says about its charset agrees
// with charset, which [DecodeBytes] or a [Reader] has found for it: label, ""
// for none, and the encoding that the XML declaration names. Both readers
// ignore what a stronger statement overrides (see the package documentation,
// Charsets). b is the start of the document as received; its first 1024 octets
// are enough.
func CharsetAgrees(b []byte, label, charset string) bool {
	if label != "" && !sameCharset(label, charset) {
		return false
	}
	b = b[:min(len(b), 2*maxDeclaration)]
	switch charset {
	case utf16leName, utf16beName:
		d := utf16Decoder{big: charset == utf16beName}
		b, _, _ = d.decode(nil, b, false)
	}
	b = bytes.TrimPrefix(b, []byte("\uFEFF"))
	declaration, _ := declarationOf(b)
	_, value, ok := findEncoding(declaration)
	return !ok || sameCharset(string(declaration[value.start:value.end]), charset)
}

// sameCharset reports whether name is one of charset's. UTF-16 with either
// order is UTF-16, and US-ASCII is in UTF-8.
func sameCharset(name, charset string) bool {
	f, err := lookupCharset(name)
	if err != nil {
		return false
	}
	switch charset {
	case f.charset:
		return true
	case utf16leName, utf16beName:
		return f.charset == utf16Name
	case usASCII:
		return f.charset == utf8Name
	}
	return false
}
