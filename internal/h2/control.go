package h2

import "encoding/binary"

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// errFrameSize is a frame whose length is not the one of its kind.
var errFrameSize = &connError{codeFrameSize, "a frame of a wrong length"}

// control takes in a frame that carries nothing of a message. It is called with mu
// held.
func (c *conn) control(f *frame, p []byte) error {
	switch f.kind {
	case kindSettings:
		return c.settings(f, p)
	case kindWindow:
		return c.widen(f, p)
	case kindReset:
		return c.resetBy(f, p)
	case kindPing:
		switch {
		case len(p) != 8:
			return errFrameSize
		case f.stream != 0:
			return violation("PING on a stream")
		case !f.has(flagAck):
			c.out = append(appendHead(c.out, len(p), kindPing, flagAck, 0), p...)
		}
	case kindPriority:
		switch {
		case f.stream == 0:
			return violation("PRIORITY on stream 0")
		case len(p) != prioritySize:
			return errFrameSize
		}
	case kindPush:
		return violation("PUSH_PROMISE from a client")
	case kindGoAway:
		if f.stream != 0 {
			return violation("GOAWAY on a stream")
		}
		if len(p) < 8 {
			return errFrameSize
		}
	}
	return nil // other kinds are no error (RFC 9113 §4.1)
}

// settings takes in SETTINGS (RFC 9113 §6.5).
func (c *conn) settings(f *frame, p []byte) error {
	switch {
	case f.stream != 0:
		return violation("SETTINGS on a stream")
	case f.has(flagAck) && len(p) > 0, len(p)%settingSize != 0:
		return errFrameSize
	case f.has(flagAck):
		return nil
	}
	for n := 0; len(p) > 0; n, p = n+1, p[settingSize:] {
		if n > 0 { // each may concern every stream; the first is paid with its frame
			if err := c.budget.spend(); err != nil {
				return err
			}
		}
		v := be32(p[2:])
		switch binary.BigEndian.Uint16(p) {
		case setTable:
			c.encode.SetMaxDynamicTableSizeLimit(min(v, tableSize))
			c.encode.SetMaxDynamicTableSize(min(v, tableSize))
		case setPush:
			if v > 1 {
				return violation("SETTINGS_ENABLE_PUSH is neither 0 nor 1")
			}
		case setWindow:
			if v > maxWindow {
				return &connError{codeFlow, "SETTINGS_INITIAL_WINDOW_SIZE is too large"}
			}
			by := int64(v) - c.initial
			c.initial = int64(v)
			for _, s := range c.streams {
				if s.sendWindow += by; s.sendWindow > maxWindow {
					return &connError{codeFlow, "a window is too large"}
				}
				s.changed.Broadcast()
			}
		case setFrame:
			if v < frameSize || v > 1<<24-1 {
				return violation("SETTINGS_MAX_FRAME_SIZE is out of its range")
			}
		}
	}
	c.out = appendHead(c.out, 0, kindSettings, flagAck, 0)
	return nil
}

// widen takes in WINDOW_UPDATE (RFC 9113 §6.9).
func (c *conn) widen(f *frame, p []byte) error {
	if len(p) != 4 {
		return errFrameSize
	}
	n := int64(be32(p) & maxWindow)
	if f.stream == 0 {
		if n == 0 {
			return violation("WINDOW_UPDATE by nothing")
		}
		if c.sendWindow += n; c.sendWindow > maxWindow {
			return &connError{codeFlow, "the connection's window is too large"}
		}
		c.room.Broadcast()
		return nil
	}
	s := c.streams[f.stream]
	switch {
	case s == nil && c.isIdle(f.stream):
		return violation("WINDOW_UPDATE on a stream that was never opened")
	case s == nil:
	case n == 0:
		c.abandon(s, codeProtocol)
	default:
		if s.sendWindow += n; s.sendWindow > maxWindow {
			c.abandon(s, codeFlow)
		}
		s.changed.Broadcast()
	}
	return nil
}

// resetBy takes in RST_STREAM (RFC 9113 §6.4).
func (c *conn) resetBy(f *frame, p []byte) error {
	switch {
	case len(p) != 4:
		return errFrameSize
	case c.isIdle(f.stream):
		return violation("RST_STREAM on a stream that was never opened")
	}
	if s := c.streams[f.stream]; s != nil {
		c.close(s)
		s.lose()
	}
	return nil
}

// isIdle reports whether a stream was never opened (RFC 9113 §5.1).
func (c *conn) isIdle(stream uint32) bool { return stream%2 == 0 || stream > c.last }
