package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"

	"github.com/orisano/gosax"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// A parse reads one document and adds what it saw to t.
type parse func(doc []byte, t *tally) error

// contenders are those of this process. Each keeps what can be kept between
// documents.
func contenders() map[string]parse {
	return map[string]parse{
		"encoding/xml":    encodingXML,
		"gosax":           gosaxParse(),
		"scan":            scan(false),
		"scan+text":       scan(true),
		"decode":          decode(soapcodec.Keep),
		"decode+envelope": decode(soapcodec.Envelope),
	}
}

// scan uses all events; with text it also replaces the references in texts,
// which else are checked and stay as they are written.
func scan(text bool) parse {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	var scrap []byte
	return func(doc []byte, t *tally) error {
		s.ResetBytes(doc)
		for {
			kind, err := s.Next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			switch kind {
			case xmlstream.Start:
				t.starts++
				t.see(s.Local(), len(s.Space()) > 0)
				attrs := s.Attrs()
				for i := range attrs {
					a := &attrs[i]
					if a.IsNamespace() {
						continue
					}
					t.attrs++
					t.see(a.Name.Local, len(a.Name.Space) > 0)
					scrap = a.AppendValue(scrap[:0])
					t.values += uint64(len(scrap))
				}
			case xmlstream.End:
				t.ends++
			case xmlstream.Text, xmlstream.CDATA:
				switch {
				case s.Depth() == 0:
				case text:
					scrap = s.AppendText(scrap[:0])
					t.text += uint64(len(scrap))
				default:
					t.text += uint64(len(s.Text()))
				}
			}
		}
	}
}

func (t *tally) see(local []byte, spaced bool) {
	t.names += uint64(local[0])
	if spaced {
		t.spaced++
	}
}

func decode(mode soapcodec.Normalize) parse {
	d := soapcodec.NewDecoder(soapcodec.Options{Normalize: mode})
	var out []byte
	return func(doc []byte, t *tally) error {
		d.ResetBytes(doc)
		if err := d.Finish(); err != nil {
			return err
		}
		if mode == soapcodec.Keep {
			return nil
		}
		// What goes on, in a buffer that is used again.
		out = soapcodec.Apply(out[:0], doc, d.TakeEdits())
		return nil
	}
}

func encodingXML(doc []byte, t *tally) error {
	d := xml.NewDecoder(bytes.NewReader(doc))
	depth := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			t.starts++
			t.seeString(token.Name.Local, token.Name.Space)
			for _, a := range token.Attr {
				if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
					continue
				}
				t.attrs++
				t.seeString(a.Name.Local, a.Name.Space)
				t.values += uint64(len(a.Value))
			}
		case xml.EndElement:
			depth--
			t.ends++
		case xml.CharData:
			if depth > 0 {
				t.text += uint64(len(token))
			}
		}
	}
}

func (t *tally) seeString(local, space string) {
	t.names += uint64(local[0])
	if space != "" {
		t.spaced++
	}
}

// gosaxParse asks gosax for names, attributes and replaced text, which it gives on
// demand. It replaces in its own buffer.
func gosaxParse() parse {
	source := bytes.NewReader(nil)
	r := gosax.NewReaderSize(source, 2<<20)
	return func(doc []byte, t *tally) error {
		source.Reset(doc)
		r.Reset(source)
		r.EmitSelfClosingTag = true // Reset forgets it
		depth := 0
		for {
			e, err := r.Event()
			if err != nil {
				return err
			}
			switch e.Type() {
			case gosax.EventStart:
				depth++
				t.starts++
				name, rest := gosax.Name(e.Bytes)
				t.names += uint64(local(name)[0])
				for len(rest) > 0 {
					var a gosax.Attribute
					if a, rest, err = gosax.NextAttribute(rest); err != nil {
						return err
					}
					if len(a.Key) == 0 || bytes.HasPrefix(a.Key, []byte("xmlns")) {
						continue
					}
					if len(a.Value) < 2 {
						return errors.New("gosax: an attribute without a value")
					}
					value, err := gosax.Unescape(a.Value[1 : len(a.Value)-1])
					if err != nil {
						return err
					}
					t.attrs++
					t.names += uint64(local(a.Key)[0])
					t.values += uint64(len(value))
				}
			case gosax.EventEnd:
				depth--
				t.ends++
			case gosax.EventText, gosax.EventCData:
				if depth == 0 {
					continue
				}
				text, err := gosax.Unescape(e.Bytes)
				if err != nil {
					return err
				}
				t.text += uint64(len(text))
			case gosax.EventEOF:
				if depth != 0 {
					return fmt.Errorf("gosax: %d elements are open at the end", depth)
				}
				return nil
			}
		}
	}
}

// local is the part of a qualified name behind the prefix.
func local(name []byte) []byte { return name[bytes.IndexByte(name, ':')+1:] }
