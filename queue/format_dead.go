package queue

import (
	"encoding/json"
	"fmt"
)

// encodeDead returns the header value and the data of a dead letter. Reply and
// text are cut, and of very many attempts the latest are kept: the message
// itself never is.
func encodeDead(d *DeadLetter) (header string, data []byte, err error) {
	m := d.Message
	body, err := pack(m)
	if err != nil {
		return "", nil, err
	}
	if n := len(m.Meta) + len(body.data); n > maxData {
		return "", nil, fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, n, maxData)
	}
	reply := d.Reply[:min(len(d.Reply), maxReply)]
	attempts, err := attemptsJSON(d.Attempts)
	if err != nil {
		return "", nil, err
	}
	b := appendMessage(make([]byte, 0, 512), m, body.version())
	if len(b) > maxFields {
		return "", nil, fmt.Errorf("%w: its id, names and lane take %d octets, at most %d", ErrTooLarge, len(b), maxFields)
	}
	b = appendNumber(appendNumber(b, len(body.data)), len(reply))
	b = appendTime(b, d.Died)
	b = appendField(b, cut(d.Reason, 256))
	b = appendField(b, cut(d.Text, maxText))
	b = appendField(b, cut(d.ReplyType, 256))
	data = make([]byte, 0, len(m.Meta)+len(body.data)+len(reply)+len(attempts))
	data = append(append(append(data, m.Meta...), body.data...), reply...)
	if inline := appendField(nil, string(attempts)); len(inline) <= maxInline {
		b = append(b, inline...)
	} else {
		b = appendField(b, "")
		data = append(data, attempts...)
	}
	if d.Stops {
		b = append(b, " stops=1"...)
	}
	return seal(body.append(m.appendOptions(b)), data), data, nil
}

func attemptsJSON(a []AttemptRecord) ([]byte, error) {
	if a == nil {
		a = []AttemptRecord{}
	}
	for {
		b, err := json.Marshal(a)
		if err != nil || len(b) <= maxAttemptsJSON {
			return b, err
		}
		a = a[len(a)/4+1:]
	}
}

// deadHead is what the header value of a dead letter tells.
type deadHead struct {
	*DeadLetter        // without what stands in the data
	body        form   // of the message
	stored      int    // octets that the data has of it
	reply       int    // octets of the reply
	attempts    string // "" where they stand in the data
}

// size is the number of octets of the body.
func (h *deadHead) size() int64 { return h.body.size(h.stored) }

// decodeDeadHead reads a dead letter's header value; it does not compare the checksum.
func decodeDeadHead(header string) (*deadHead, error) {
	f := fields{rest: header}
	m, meta := f.message()
	h := &deadHead{body: form{meta: meta}, stored: f.number(), reply: f.number()}
	h.DeadLetter = &DeadLetter{Message: m, Died: f.time(), Reason: f.text(), Text: f.text(), ReplyType: f.text()}
	h.attempts = f.text()
	f.options(func(name, value string) {
		if name == "stops" {
			h.Stops = h.Stops || value == "1"
			return
		}
		m.option(name, value)
		h.body.option(name, value)
	})
	f.raw() // the checksum
	if f.err == nil {
		f.err = h.body.err
	}
	if f.err == nil && h.attempts != "" {
		f.err = h.readAttempts(h.attempts)
	}
	return h, f.err
}

// readAttempts reads the JSON of the attempts.
func (h *deadHead) readAttempts(text string) error {
	if err := json.Unmarshal([]byte(text), &h.Attempts); err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if len(h.Attempts) == 0 {
		h.Attempts = nil
	}
	return nil
}

// decodeDead reads a dead letter.
func decodeDead(header string, data []byte) (*DeadLetter, error) {
	if err := verify(header, data); err != nil {
		return nil, err
	}
	h, err := decodeDeadHead(header)
	if err != nil {
		return nil, err
	}
	meta := h.body.meta
	rest := meta + h.stored + h.reply
	if rest > len(data) {
		return nil, errFormat
	}
	h.Meta = data[:meta:meta]
	if err := h.body.unpack(h.Message, data[meta:meta+h.stored:meta+h.stored]); err != nil {
		return nil, err
	}
	if h.reply > 0 {
		h.Reply = data[meta+h.stored : rest : rest]
	}
	if h.attempts == "" {
		return h.DeadLetter, h.readAttempts(string(data[rest:]))
	}
	return h.DeadLetter, nil
}
