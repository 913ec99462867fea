package xmlstream

import (
	"io"
	"testing"
)

// BenchmarkCanonical makes the forms of a usual request; beside them the scan
// alone, and a copy by Raw, which has the least to write.
func BenchmarkCanonical(b *testing.B) {
	s := NewScanner(Limits{})
	for _, form := range canonicalForms {
		if !form.opt.Comments {
			continue
		}
		b.Run(form.name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			c := NewCanonicalizer(form.opt)
			for b.Loop() {
				s.ResetBytes(message)
				c.Reset()
				if err := c.WriteDocument(io.Discard, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(message)))
		for b.Loop() {
			s.ResetBytes(message)
			if err := drain(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPrinter writes the usual request again, by Raw and by names.
func BenchmarkPrinter(b *testing.B) {
	s := NewScanner(Limits{})
	p := NewPrinter()
	b.Run("raw", func(b *testing.B) {
		b.SetBytes(int64(len(message)))
		for b.Loop() {
			s.ResetBytes(message)
			p.Reset(io.Discard)
			for {
				if _, err := s.Next(); err != nil {
					break
				}
				p.Raw(s)
			}
			if err := p.Finish(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("names", func(b *testing.B) {
		size := new(counter)
		write := func(w io.Writer) {
			p.Reset(w)
			p.Start("", "order", "urn:example:orders")
			for range 20 {
				p.Start("", "item", "urn:example:orders")
				p.Attr("", "sku", "", "A-1000")
				p.Attr("", "count", "", "3")
				p.Start("", "name", "urn:example:orders")
				p.Text("Bolts & nuts, M8")
				p.End()
				p.End()
			}
			p.End()
			if err := p.Finish(); err != nil {
				b.Fatal(err)
			}
		}
		write(size)
		b.SetBytes(int64(*size))
		for b.Loop() {
			write(io.Discard)
		}
	})
}
