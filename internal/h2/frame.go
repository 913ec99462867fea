package h2

import (
	"encoding/binary"
	"fmt"
)

// Kinds of frames (RFC 9113 §6).
const (
	kindData         = 0x0
	kindHeaders      = 0x1
	kindPriority     = 0x2
	kindReset        = 0x3
	kindSettings     = 0x4
	kindPush         = 0x5
	kindPing         = 0x6
	kindGoAway       = 0x7
	kindWindow       = 0x8
	kindContinuation = 0x9
)

// Flags of frames.
const (
	flagAck        = 0x1 // SETTINGS, PING
	flagEndStream  = 0x1 // DATA, HEADERS
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings (RFC 9113 §6.5.2).
const (
	setTable      = 0x1
	setPush       = 0x2
	setStreams    = 0x3
	setWindow     = 0x4
	setFrame      = 0x5
	setHeaderList = 0x6
)

// A code is why a stream or a connection ends (RFC 9113 §7).
type code uint32

const (
	codeNone        code = 0x0
	codeProtocol    code = 0x1
	codeInternal    code = 0x2
	codeFlow        code = 0x3
	codeClosed      code = 0x5
	codeFrameSize   code = 0x6
	codeRefused     code = 0x7
	codeCancel      code = 0x8
	codeCompression code = 0x9
	codeCalm        code = 0xb
)

// connError ends a connection.
type connError struct {
	code   code
	reason string
}

func (e *connError) Error() string { return fmt.Sprintf("h2: %s (%#x)", e.reason, uint32(e.code)) }

// violation is what a client must not do (RFC 9113 §5.4.1).
func violation(reason string) error { return &connError{codeProtocol, reason} }

const (
	headSize  = 9       // of the head of a frame (RFC 9113 §4.1)
	frameSize = 1 << 14 // the longest payload that is read or written

	maxWindow    = 1<<31 - 1
	firstWindow  = 1<<16 - 1 // of a connection, and of a stream unless SETTINGS say else
	tableSize    = 4096      // of HPACK, in both directions
	settingSize  = 6
	prioritySize = 5
)

// frame is the head of a frame.
type frame struct {
	length int
	kind   byte
	flags  byte
	stream uint32
}

func (f *frame) has(flag byte) bool { return f.flags&flag != 0 }

// parseHead reads the head of a frame, of which b has the octets.
func parseHead(b []byte) frame {
	_ = b[headSize-1]
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   b[3],
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & maxWindow,
	}
}

// appendHead appends the head of a frame.
func appendHead(b []byte, length int, kind, flags byte, stream uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// append4 appends a frame with four octets, as RST_STREAM and WINDOW_UPDATE have.
func append4(b []byte, kind byte, stream, v uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(b, 4, kind, 0, stream), v)
}

func appendReset(b []byte, stream uint32, c code) []byte {
	return append4(b, kindReset, stream, uint32(c))
}

func appendGoAway(b []byte, last uint32, c code) []byte {
	b = binary.BigEndian.AppendUint32(appendHead(b, 8, kindGoAway, 0, 0), last)
	return binary.BigEndian.AppendUint32(b, uint32(c))
}

// appendSettings appends our SETTINGS; values are ids and values in turn.
func appendSettings(b []byte, values ...uint32) []byte {
	b = appendHead(b, len(values)/2*settingSize, kindSettings, 0, 0)
	for i := 0; i < len(values); i += 2 {
		b = binary.BigEndian.AppendUint16(b, uint16(values[i]))
		b = binary.BigEndian.AppendUint32(b, values[i+1])
	}
	return b
}

// unpad takes padding off the payload of a frame (RFC 9113 §6.1).
func unpad(f *frame, p []byte) ([]byte, error) {
	if !f.has(flagPadded) {
		return p, nil
	}
	if len(p) == 0 {
		return nil, &connError{codeFrameSize, "a padded frame without the length of its padding"}
	}
	n := int(p[0])
	if p = p[1:]; n > len(p) {
		return nil, violation("padding that is longer than its frame")
	}
	return p[:len(p)-n], nil
}
