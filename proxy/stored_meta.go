package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"soapway/soapcodec"
)

// storedMeta is what is kept of a request beside its octets: what the node
// would have got, but for what the settings of the backend add at delivery.
type storedMeta struct {
	V        int         `json:"v"` // metaVersion
	SOAP     string      `json:"soap"`
	Framed   bool        `json:"framed,omitempty"`
	Doubt    bool        `json:"doubt,omitempty"` // a try before it was stored may have been processed
	Tail     octets      `json:"tail,omitempty"`  // of the path, behind the route's prefix
	Query    octets      `json:"query,omitempty"`
	HasQuery bool        `json:"has_query,omitempty"`
	Host     octets      `json:"host,omitempty"` // that the caller asked for
	Action   octets      `json:"action,omitempty"`
	Client   string      `json:"client,omitempty"`
	Reply    *replyWish  `json:"reply,omitempty"` // nil: the answer is discarded
	Header   [][2]octets `json:"header,omitempty"`
	Answer   *answerWish `json:"answer,omitempty"` // nil: the answer goes nowhere
	To       octets      `json:"to,omitempty"`     // of an answer: where it goes
	Sites    []octets    `json:"sites,omitempty"`  // that it has passed
	Space    octets      `json:"space,omitempty"`  // namespace of the first child of Body, whose local name is Stored.Operation
	Back     *backWish   `json:"back,omitempty"`   // nil: no other site waits for the answer
	Return   *returnMeta `json:"return,omitempty"` // of an answer on its way back to another site
}

const metaVersion = 1

// replyWish says that the answer is kept, for whom and in which form. It stands
// with the message, so that the receipt holds whatever a reload changes.
type replyWish struct {
	SOAP   string        `json:"soap"`             // that the caller spoke; storedMeta.SOAP is what the node gets
	Caller octets        `json:"caller,omitempty"` // who it has proved to be; "" for nobody
	Keep   time.Duration `json:"keep,omitempty"`   // how long, in nanoseconds; 0 is for ever
}

func (w *replyWish) version() soapcodec.Version { return soapVersion(w.SOAP) }

// append appends the member of storedMeta.
func (w *replyWish) append(dst []byte) []byte {
	dst = octets(w.SOAP).append(append(dst, `,"reply":{"soap":`...))
	if w.Caller != "" {
		dst = w.Caller.append(append(dst, `,"caller":`...))
	}
	if w.Keep != 0 {
		dst = strconv.AppendInt(append(dst, `,"keep":`...), int64(w.Keep), 10)
	}
	return append(dst, '}')
}

// octets is a string that survives JSON also where it is not UTF-8, which field
// values and targets need not be: it is then written as an object whose one
// member has each octet as a character.
type octets string

// append appends the JSON of m. It is written by hand because every stored
// message pays for it: encoding/json cost 8 % of all that accepting one takes.
func (m *storedMeta) append(dst []byte) []byte {
	size := 128 + len(m.Tail) + len(m.Query) + len(m.Host) + len(m.Action) + len(m.Client) + len(m.Space)
	for _, f := range m.Header {
		size += len(f[0]) + len(f[1]) + len(`["",""],`)
	}
	dst = slices.Grow(dst, size)
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, int64(m.V), 10)
	dst = append(dst, `,"soap":`...)
	dst = octets(m.SOAP).append(dst)
	if m.Framed {
		dst = append(dst, `,"framed":true`...)
	}
	if m.Doubt {
		dst = append(dst, `,"doubt":true`...)
	}
	if m.HasQuery {
		dst = append(dst, `,"has_query":true`...)
	}
	for _, member := range [...]struct {
		name  string
		value octets
	}{
		{`,"tail":`, m.Tail},
		{`,"query":`, m.Query},
		{`,"host":`, m.Host},
		{`,"action":`, m.Action},
		{`,"client":`, octets(m.Client)},
		{`,"to":`, m.To},
		{`,"space":`, m.Space},
	} {
		if member.value != "" {
			dst = member.value.append(append(dst, member.name...))
		}
	}
	if m.Reply != nil {
		dst = m.Reply.append(dst)
	}
	if m.Answer != nil {
		dst = m.Answer.append(dst)
	}
	if m.Back != nil {
		dst = appendMember(dst, "back", m.Back)
	}
	if m.Return != nil {
		dst = appendMember(dst, "return", m.Return)
	}
	for i, s := range m.Sites {
		dst = s.append(append(dst, [...]string{`,"sites":[`, `,`}[min(i, 1)]...))
	}
	if len(m.Sites) > 0 {
		dst = append(dst, ']')
	}
	for i, f := range m.Header {
		if i == 0 {
			dst = append(dst, `,"header":[[`...)
		} else {
			dst = append(dst, `],[`...)
		}
		dst = f[0].append(dst)
		dst = append(dst, ',')
		dst = f[1].append(dst)
	}
	if len(m.Header) > 0 {
		dst = append(dst, `]]`...)
	}
	return append(dst, '}')
}

func (o octets) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, '"')
	for i := range len(o) {
		if c := o[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return o.appendEscaped(dst[:start])
		}
	}
	return append(append(dst, o...), '"')
}

// appendEscaped is append for what is not plain ASCII.
func (o octets) appendEscaped(dst []byte) []byte {
	var v any = string(o)
	if !utf8.ValidString(string(o)) {
		runes := make([]rune, len(o))
		for i := range len(o) {
			runes[i] = rune(o[i])
		}
		v = map[string]string{"octets": string(runes)}
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a string always can be
	}
	return append(dst, b...)
}

func (o *octets) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(o))
	}
	var m struct{ Octets string }
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	raw := make([]byte, 0, len(m.Octets))
	for _, r := range m.Octets {
		if r > 0xff {
			return fmt.Errorf("%q is not an octet", r)
		}
		raw = append(raw, byte(r))
	}
	*o = octets(raw)
	return nil
}

// readMeta takes Meta apart again.
func readMeta(b []byte) (*storedMeta, error) {
	m := new(storedMeta)
	if !m.readPlain(b) {
		*m = storedMeta{}
		if err := json.Unmarshal(b, m); err != nil {
			return nil, fmt.Errorf("proxy: stored message: %w", err)
		}
	}
	if m.V != metaVersion {
		return nil, fmt.Errorf("proxy: stored message: has form %d, this version knows %d", m.V, metaVersion)
	}
	return m, nil
}

func (m *storedMeta) version() soapcodec.Version { return soapVersion(m.SOAP) }

// action is that of the binding: the SOAPAction field, or the parameter of the
// media type.
func (m *storedMeta) action() string {
	for _, f := range m.Header {
		switch f[0] {
		case soapActionKey:
			if a, _ := soapcodec.ParseSOAPAction([]string{string(f[1])}); a != "" {
				return a
			}
		case "Content-Type":
			if ct, err := soapcodec.ParseContentType(string(f[1])); err == nil && ct.Action != "" {
				return ct.Action
			}
		}
	}
	return ""
}

func soapVersion(s string) soapcodec.Version {
	if s == soapcodec.V12.String() {
		return soapcodec.V12
	}
	return soapcodec.V11
}
