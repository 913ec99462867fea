package main

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A family is documents that differ in nothing but values.
type family struct {
	name     string
	variants [][]byte
}

func (f *family) size() (octets int) {
	for _, v := range f.variants {
		octets += len(v)
	}
	return octets
}

// The families, made anew and alike in every run.
const (
	envelope1k = "envelope1k" // 1.3 KB: a call with addressing headers
	order2k    = "order2k"    // 2 KB: WS-Addressing, WS-Security, one order line
	orders1m   = "orders1m"   // 1 MB: the same head, thousands of order lines
	base64of1m = "base64of1m" // 1 MB: the same head, one element with base64
)

const variants = 24

func families() []family {
	small := family{name: envelope1k}
	order := family{name: order2k}
	for i := range uint64(variants) {
		small.variants = append(small.variants, call(random(1, i)))
		order.variants = append(order.variants, orders(random(2, i), 2_200))
	}
	return []family{
		small, order,
		{orders1m, [][]byte{orders(random(3, 0), 1<<20)}},
		{base64of1m, [][]byte{attachment(random(4, 0), 720<<10)}},
	}
}

func random(family, variant uint64) *rand.Rand { return rand.New(rand.NewPCG(family, variant)) }

func uuid(rnd *rand.Rand) string {
	return fmt.Sprintf("urn:uuid:%08x-%04x-4%03x-8%03x-%012x", rnd.Uint32(), rnd.IntN(1<<16), rnd.IntN(1<<12), rnd.IntN(1<<12), rnd.Uint64()>>16)
}

// call is a message as a client with WS-Addressing prints it.
func call(rnd *rand.Rand) []byte {
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="utf-8"?>
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://www.w3.org/2005/08/addressing">
  <s:Header>
    <a:Action s:mustUnderstand="1">http://depot.example.com/2019/10/IParcels/Track</a:Action>
    <a:MessageID>%s</a:MessageID>
    <a:ReplyTo>
      <a:Address>http://www.w3.org/2005/08/addressing/anonymous</a:Address>
    </a:ReplyTo>
    <a:To s:mustUnderstand="1">https://depot.example.com/services/Parcels.svc</a:To>
  </s:Header>
  <s:Body>
    <Track xmlns="http://depot.example.com/2019/10" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
      <customer>%07d</customer>
      <parcels>
        <parcel kind="letter">PX-%09d</parcel>
        <parcel kind="pallet">PX-%09d</parcel>
        <parcel kind="box">PX-%09d</parcel>
      </parcels>
      <since>2026-%02d-%02dT06:30:00Z</since>
      <language>en</language>
      <contact mail="dispatch@customer.example.net" telephone="+41 44 000 00 00"/>
      <options><scans>true</scans><signature>false</signature></options>
      <reference i:nil="true"/>
      <comment>left at &lt;dock %d&gt; &amp; signed</comment>
    </Track>
  </s:Body>
</s:Envelope>
`, uuid(rnd), rnd.IntN(1e7), rnd.IntN(1e9), rnd.IntN(1e9), rnd.IntN(1e9), 1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(40))
}

func head(rnd *rand.Rand) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:wsa="http://www.w3.org/2005/08/addressing" xmlns:buy="http://market.example.org/purchasing/v2" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">
  <soapenv:Header>
    <wsa:To soapenv:mustUnderstand="1">http://market.example.org/services/Purchasing</wsa:To>
    <wsa:Action>http://market.example.org/purchasing/v2/PlaceOrder</wsa:Action>
    <wsa:MessageID>%s</wsa:MessageID>
    <wsse:Security xmlns:wsse="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd" soapenv:mustUnderstand="1"><wsse:UsernameToken><wsse:Username>buyer%d</wsse:Username><wsse:Password Type="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordText">pa&amp;ss%06d</wsse:Password></wsse:UsernameToken></wsse:Security>
  </soapenv:Header>
  <soapenv:Body>
    <buy:PlaceOrder>
`, uuid(rnd), rnd.IntN(900), rnd.IntN(1e6))
}

const tail = `    </buy:PlaceOrder>
  </soapenv:Body>
</soapenv:Envelope>
`

var goods = []string{
	"Hose clamp, stainless", "Washer &lt;DIN 125&gt;", "Dübel 8 mm", "Nut &amp; screw set", "Ball bearing, sealed on both sides", "軸受 6204",
}

// orders has as many order lines as fit into about size octets.
func orders(rnd *rand.Rand, size int) []byte {
	var b strings.Builder
	b.WriteString(head(rnd))
	for n := 1; b.Len() < size-len(tail)-len(line(rnd, n))/2; n++ {
		b.WriteString(line(rnd, n))
	}
	return []byte(b.String() + tail)
}

func line(rnd *rand.Rand, n int) string {
	return fmt.Sprintf(`      <buy:item xsi:type="buy:StockItem" no="%05d" unit="PC">
        <buy:article>A-%08d</buy:article>
        <buy:text xml:lang="en">%s</buy:text>
        <buy:amount>%d</buy:amount>
        <buy:price currency="CHF">%.2f</buy:price>
        <buy:remark/>
      </buy:item>
`, n, rnd.IntN(1e8), goods[rnd.IntN(len(goods))], 1+rnd.IntN(400), rnd.Float64()*800)
}

// attachment is a file of so many octets in one element, in lines of 76.
func attachment(rnd *rand.Rand, octets int) []byte {
	raw := make([]byte, octets)
	for i := range raw {
		raw[i] = byte(rnd.Uint32())
	}
	text := base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	b.WriteString(head(rnd) + "      <buy:scan name=\"invoice.pdf\" type=\"application/pdf\">")
	for ; len(text) > 76; text = text[76:] {
		b.WriteString(text[:76] + "\n")
	}
	b.WriteString(text + "\n</buy:scan>\n" + tail)
	return []byte(b.String())
}
