package interop

import (
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

const (
	envelope11 = "http://schemas.xmlsoap.org/soap/envelope/"
	envelope12 = "http://www.w3.org/2003/05/soap-envelope"
)

// A reply has what the depot's answers and faults of both versions consist of.
type reply struct {
	XMLName xml.Name
	Body    struct {
		Quote struct {
			Cents int `xml:"urn:example:depot cents"`
		} `xml:"urn:example:depot QuoteResponse"`
		Label struct {
			Text string `xml:"urn:example:depot text"`
		} `xml:"urn:example:depot LabelResponse"`
		Fault struct {
			String string `xml:"faultstring"`
			Reason string `xml:"Reason>Text"`
		}
	}
}

func (r reply) String() string {
	return fmt.Sprintf("%s cents=%d text=%q fault=%q", r.XMLName.Space, r.Body.Quote.Cents, r.Body.Label.Text, r.Body.Fault.String+r.Body.Fault.Reason)
}

// testFrames sends frames by hand: three requests of different kinds and two
// keep-alives in one write, answered by one frame each, in order.
func testFrames(t *testing.T, addresses map[string]string) {
	const escaped = "héllo &lt;&amp;&gt; ]]&gt; 测试"
	for _, s := range servers {
		for _, v := range versions {
			t.Run(framedName(s, v), func(t *testing.T) {
				ns := byVersion(v, envelope11, envelope12)
				c, err := net.DialTimeout("tcp", addresses[framedName(s, v)], patience)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				frames := frame(nil, envelope(ns, "<Label><text>"+escaped+"</text></Label>"))
				frames = frame(frames, "")
				frames = frame(frames, envelope(ns, "<Refuse><parcel>"+escaped+"</parcel></Refuse>"))
				frames = frame(frames, envelope(ns, "<Quote><grams>6</grams><zone>7</zone></Quote>"))
				frames = frame(frames, "")
				if _, err := c.Write(frames); err != nil {
					t.Fatal(err)
				}
				for i, want := range []string{
					ns + ` cents=0 text="` + text + `" fault=""`,
					"",
					ns + ` cents=0 text="" fault="refused & returned: ` + text + `"`,
					ns + ` cents=42 text="" fault=""`,
					"",
				} {
					if got := readReply(t, c); got != want {
						t.Errorf("frame %d: got %s, want %s", i, got, want)
					}
				}
			})
		}
	}
}

func envelope(ns, operation string) string {
	return `<e:Envelope xmlns:e="` + ns + `" xmlns="urn:example:depot"><e:Body>` + operation + `</e:Body></e:Envelope>`
}

func frame(b []byte, payload string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// readReply reads one frame and prints what is in it; nothing for a zero-length one.
func readReply(t *testing.T, r io.Reader) string {
	t.Helper()
	payload := readFrame(t, r)
	if len(payload) == 0 {
		return ""
	}
	var got reply
	if err := xml.Unmarshal(payload, &got); err != nil {
		t.Fatalf("%q: %v", payload, err)
	}
	return got.String()
}

func readFrame(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatalf("head of a frame: %v", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 64<<20 {
		t.Fatalf("a frame of %d octets", n)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		t.Fatalf("a frame of %d octets: %v", n, err)
	}
	return payload
}
