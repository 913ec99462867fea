package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// CheckStored says why a message that comes from elsewhere than this program's own
// store must not be delivered with this Meta: it cannot be read, or would write
// into a request what is no field of it.
func CheckStored(meta []byte) error {
	m, err := readMeta(meta)
	if err != nil {
		if _, ok := errors.AsType[*json.SyntaxError](err); ok {
			return errors.New("proxy: stored message: its fields are no JSON")
		}
		return err
	}
	for _, f := range m.Header {
		name, value := string(f[0]), string(f[1])
		if !isToken(name) || hopByHop(canonical(name)) || strings.ContainsFunc(value, control) {
			return fmt.Errorf("proxy: stored message: %.60q is no field that can be sent on", name)
		}
	}
	for _, s := range []octets{m.Tail, m.Query, m.Host} {
		if strings.ContainsFunc(string(s), func(r rune) bool { return r == ' ' || control(r) }) {
			return fmt.Errorf("proxy: stored message: %.60q is no part of a target", string(s))
		}
	}
	if m.Tail != "" && m.Tail[0] != '/' {
		return fmt.Errorf("proxy: stored message: %.60q is no part of a target", string(m.Tail))
	}
	if r := m.Return; r != nil && (!isToken(r.ID) || strings.ContainsFunc(string(r.Reason), control)) {
		return errors.New("proxy: stored message: it is no answer to another site")
	}
	if w := m.Back; w != nil && (!isToken(w.ID) || !isToken(w.Site)) {
		return errors.New("proxy: stored message: its answer can not go back")
	}
	if strings.ContainsFunc(string(m.Action), control) {
		return errors.New("proxy: stored message: its action has control characters")
	}
	return nil
}

// control tells the octets that end a line or a head. A tab may stand in a value.
func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
