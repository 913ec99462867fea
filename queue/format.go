package queue

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// Format is the version of store.json and the highest one of the records. A store
// of a higher version is not opened.
//
// A record of the log is a JetStream message on gw.in.00.HASH, with a hash of the
// destination (see logSubject). Its one header is
//
//	Gw-Message: 1 ID ROUTE DESTINATION LANE OPERATION ACCEPTED META [OPTION…] CRC
//
// and its data is the meta octets followed by the body. A dead letter, on
// gw.dead.ID, has
//
//	Gw-Dead: 1 ID ROUTE DESTINATION LANE OPERATION ACCEPTED META BODY REPLY DIED REASON TEXT TYPE ATTEMPTS [OPTION…] CRC
//
// and meta, body, reply and, where ATTEMPTS is empty, the JSON of the attempts
// as its data. Attempts (gw.att.ID) and states (gw.st.NAME) are
//
//	Gw-Value: 1 KEY CRC
//
// with the value as data. A reply, on gw.rep.HOUR.ID, has
//
//	Gw-Reply: 1 ID ROUTE UNTIL META CRC
//
// and meta and body as its data; HOUR is the hour since 1970 in which it expires,
// and gw.rephour.HOUR is there if any does. Fields are separated by one space. A text is written
// with every octet that is not printable ASCII, the space and the percent sign
// as %XX, and an empty one as a single %. ACCEPTED and DIED are nanoseconds
// since 1970, or % for no time; META, BODY and REPLY are lengths in octets. An
// OPTION is NAME=VALUE, and one that is not known is passed over: first=1 is
// Message.First, anew=1 Message.Anew, stops=1 is DeadLetter.Stops, same=KEYANDSUM.UNTIL is
// Message.Identity, forwards=1 is Message.Forwards, after=N is Message.After, again=1 is
// Message.Again, came=LABEL Message.Came and link=LABEL Message.Link, where LABEL is
// EPOCH.CLASS.N.LINK, EPOCH in hexadecimal, with /ORIGIN behind it if there is one. A delivered message, on gw.done.ID, is written as a dead letter. A record
// whose body does not stand in it as it is begins with 2
// in place of 1 and has one option more: zstd=N where the body, of N octets, is
// compressed (RFC 8878), or blob=NAME.SIZE.CRC where it is the file NAME in blobs/,
// with .KEY behind it if that is sealed. BODY is what the data has of it. What is kept of messages that are gone stands in records of
// gw.ids.HOUR, where HOUR is the hour since 1970 before whose end all of it is
// over, with the route as KEY and knownSize octets for each message. CRC
// is the CRC-32C, in hexadecimal, of the fields before it and then the data.
const Format = 2

// formatSealed is the version of a store in which something was ever sealed: a
// program that knows no keys must not open it.
const formatSealed = 3

const (
	headerMessage = "Gw-Message"
	headerDead    = "Gw-Dead"
	headerValue   = "Gw-Value"
	headerReply   = "Gw-Reply"
)

const (
	// maxPayload is what the embedded server takes as one message: far below
	// the 32 MiB at which a record damages the index of its block.
	maxPayload = 8 << 20
	// maxData bounds meta and body as they stand in a record, so that the dead
	// letter, with reply and attempts, still fits. Bodies that are put are far
	// smaller, see inlineMost; those of format 1 were not.
	maxData = maxPayload - 512<<10
	// maxFields bounds the fields of a message as written; the server refuses
	// headers of 64 KiB and more, and a dead letter adds to them.
	maxFields = 24 << 10
	// maxKey bounds an id or a name as written in a subject.
	maxKey = 1 << 10

	maxReply        = 64 << 10  // of a dead letter
	maxText         = 2 << 10   // of a dead letter, before it is written
	maxInline       = 16 << 10  // attempts kept in a dead letter's header
	maxAttemptsJSON = 256 << 10 // attempts kept at all
	recordOverhead  = 22 + 4 + 8 + 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errFormat = errors.New("record has another form")

// checksum covers the fields as well, so that a message never comes back with
// another one's destination or lane.
func checksum(fields string, data []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(fields), castagnoli), castagnoli, data)
}

const hexDigits = "0123456789ABCDEF"

// appendField appends a space and s as one field.
func appendField(b []byte, s string) []byte {
	b = append(b, ' ')
	if s == "" {
		return append(b, '%')
	}
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '%' {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}

func appendNumber(b []byte, n int) []byte { return strconv.AppendInt(append(b, ' '), int64(n), 10) }

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, ' ', '%')
	}
	return strconv.AppendInt(append(b, ' '), t.UnixNano(), 10)
}

func appendMessage(b []byte, m *Message, version int64) []byte {
	b = strconv.AppendInt(b, version, 10)
	for _, s := range [...]string{m.ID, m.Route, m.Destination, m.Lane, m.Operation} {
		b = appendField(b, s)
	}
	return appendNumber(appendTime(b, m.Accepted), len(m.Meta))
}

// seal appends the checksum of what b holds so far and of data.
func seal(b, data []byte) string {
	fields := string(b)
	return string(strconv.AppendUint(append(b, ' '), uint64(checksum(fields, data)), 16))
}

// subjectToken writes s as one token of a subject.
func subjectToken(s string) (string, error) {
	plain := s != ""
	for i := 0; i < len(s) && plain; i++ {
		plain = isTokenByte(s[i])
	}
	if !plain {
		b := make([]byte, 0, len(s)+16)
		if s == "" {
			b = append(b, '%')
		}
		for i := range len(s) {
			if c := s[i]; isTokenByte(c) {
				b = append(b, c)
			} else {
				b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		s = string(b)
	}
	if len(s) > maxKey {
		return "", fmt.Errorf("%w: a key of %d octets", ErrTooLarge, len(s))
	}
	return s, nil
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// encodeMessage returns the header value and the data of m's record.
func encodeMessage(m *Message) (header string, data []byte, err error) {
	body, err := pack(m)
	if err != nil {
		return "", nil, err
	}
	if n := len(m.Meta) + len(body.data); n > maxData {
		return "", nil, fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, n, maxData)
	}
	b := appendMessage(make([]byte, 0, 256), m, body.version())
	if len(b) > maxFields {
		return "", nil, fmt.Errorf("%w: its id, names and lane take %d octets, at most %d", ErrTooLarge, len(b), maxFields)
	}
	data = make([]byte, 0, len(m.Meta)+len(body.data))
	data = append(append(data, m.Meta...), body.data...)
	if m.First {
		b = append(b, " first=1"...)
	}
	if m.Anew {
		b = append(b, " anew=1"...)
	}
	return seal(body.append(m.appendOptions(b)), data), data, nil
}

// fields reads the fields of a header value from the left; the first error stays.
type fields struct {
	rest string
	err  error
}

func (f *fields) raw() string {
	if f.err != nil {
		return ""
	}
	if f.rest == "" {
		f.err = errFormat
		return ""
	}
	s, rest, _ := strings.Cut(f.rest, " ")
	f.rest = rest
	return s
}

func (f *fields) text() string {
	s := f.raw()
	if strings.IndexByte(s, '%') < 0 {
		if s == "" && f.err == nil {
			f.err = errFormat
		}
		return s
	}
	if s == "%" {
		return ""
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			f.err = errFormat
			return ""
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			f.err = errFormat
			return ""
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b)
}

// options calls f for the options before the checksum.
func (f *fields) options(option func(name, value string)) {
	for f.err == nil && strings.IndexByte(f.rest, ' ') >= 0 {
		name, value, _ := strings.Cut(f.raw(), "=")
		option(name, value)
	}
}

// option reads an option of a message. An identity that can not be read is
// none: it costs a repeat, no message.
func (m *Message) option(name, value string) {
	switch name {
	case "first":
		m.First = value == "1"
	case "again":
		m.Again = value == "1"
	case "anew":
		m.Anew = value == "1"
	case "same":
		m.Identity, _ = parseIdentity(value)
	case "forwards":
		m.Forwards = value == "1"
	case "came":
		m.Came = parseLabel(value)
	case "link":
		m.Link = parseLabel(value)
	case "after":
		if n, err := strconv.ParseUint(value, 10, 8); err == nil {
			m.After = Fate(n)
		}
	}
}

// appendOptions appends those that a message keeps as a dead letter.
func (m *Message) appendOptions(b []byte) []byte {
	if !m.Identity.IsZero() {
		b = append(append(b, " same="...), m.Identity.option()...)
	}
	if m.Again {
		b = append(b, " again=1"...)
	}
	if m.Forwards {
		b = append(b, " forwards=1"...)
	}
	if m.After != FateWaiting {
		b = strconv.AppendUint(append(b, " after="...), uint64(m.After), 10)
	}
	if m.Came != nil {
		b = append(append(b, " came="...), m.Came.option()...)
	}
	if m.Link != nil {
		b = append(append(b, " link="...), m.Link.option()...)
	}
	return b
}

func (f *fields) number() int {
	n, err := strconv.ParseUint(f.raw(), 10, 31)
	if err != nil && f.err == nil {
		f.err = errFormat
	}
	return int(n)
}

func (f *fields) time() time.Time {
	s := f.raw()
	if s == "%" || f.err != nil {
		return time.Time{}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f.err = errFormat
	}
	return time.Unix(0, n).UTC()
}

// version reads the version of a record, at most most.
func (f *fields) version(most uint64) {
	s := f.raw()
	if v, err := strconv.ParseUint(s, 10, 8); (err != nil || v < recordPlain || v > most) && f.err == nil {
		f.err = fmt.Errorf("%w: version %q", errFormat, cut(s, 20))
	}
}

// message reads what all records of messages begin with.
func (f *fields) message() (m *Message, meta int) {
	f.version(recordForm)
	m = &Message{ID: f.text(), Route: f.text(), Destination: f.text(), Lane: f.text(), Operation: f.text(), Accepted: f.time()}
	return m, f.number()
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// verify compares the checksum at the end of a header value with its fields and data.
func verify(header string, data []byte) error {
	i := strings.LastIndexByte(header, ' ')
	if i < 0 {
		return errFormat
	}
	want, err := strconv.ParseUint(header[i+1:], 16, 32)
	if err != nil {
		return errFormat
	}
	if checksum(header[:i], data) != uint32(want) {
		return errors.New("checksum differs")
	}
	return nil
}

// decodeHead reads a message's header value without its data: neither Meta nor
// Body is filled in, nor is the checksum compared.
func decodeHead(header string) (m *Message, body form, err error) {
	f := fields{rest: header}
	m, body.meta = f.message()
	f.options(func(name, value string) {
		m.option(name, value)
		body.option(name, value)
	})
	f.raw() // the checksum
	if f.err == nil {
		f.err = body.err
	}
	return m, body, f.err
}

func decodeMessage(header string, data []byte) (*Message, error) {
	if err := verify(header, data); err != nil {
		return nil, err
	}
	m, body, err := decodeHead(header)
	if err != nil {
		return nil, err
	}
	if body.meta > len(data) {
		return nil, errFormat
	}
	m.Meta = data[:body.meta:body.meta]
	return m, body.unpack(m, data[body.meta:])
}

func encodeReply(r *Reply) (header string, data []byte, err error) {
	if n := len(r.Meta) + len(r.Body); n > maxData {
		return "", nil, fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, n, maxData)
	}
	b := strconv.AppendInt(make([]byte, 0, 256), recordPlain, 10)
	b = appendTime(appendField(appendField(b, r.ID), r.Route), r.Until)
	b = appendNumber(b, len(r.Meta))
	if len(b) > maxFields {
		return "", nil, fmt.Errorf("%w: its id and route take %d octets, at most %d", ErrTooLarge, len(b), maxFields)
	}
	data = append(append(make([]byte, 0, len(r.Meta)+len(r.Body)), r.Meta...), r.Body...)
	return seal(b, data), data, nil
}

func decodeReply(header string, data []byte) (*Reply, error) {
	if err := verify(header, data); err != nil {
		return nil, err
	}
	f := fields{rest: header}
	f.version(recordPlain)
	r := &Reply{ID: f.text(), Route: f.text(), Until: f.time()}
	meta := f.number()
	f.options(func(string, string) {})
	if f.raw(); f.err != nil { // the checksum
		return nil, f.err
	}
	if meta > len(data) {
		return nil, errFormat
	}
	r.Meta, r.Body = data[:meta:meta], data[meta:]
	return r, nil
}

func encodeValue(key string, data []byte) (header string) {
	return seal(appendField(strconv.AppendInt(nil, recordPlain, 10), key), data)
}

func decodeValue(header string, data []byte) (key string, err error) {
	if err := verify(header, data); err != nil {
		return "", err
	}
	f := fields{rest: header}
	f.version(recordPlain)
	key = f.text()
	return key, f.err
}
