package config

import (
	"fmt"
	"strings"
)

// What ${NAME} brings into the file may be a secret, at whatever key it stands.
// So a value that came from there is never shown: problems and the printed
// configuration have the scalar as it was written, "${NAME}", and no hint is
// computed from it. The loader remembers such values by their key, in
// loader.hidden.

// fixed is text that has nothing of a value in it. A constant is fixed by
// itself; text that is computed has to be converted, and that is the place to
// think.
type fixed string

// A badValue says why a scalar is refused and what to write instead.
type badValue struct {
	format fixed
	pieces []any // pieces of the value, but for those that are fixed
	hint   fixed
	better string // a hint with pieces of the value, in place of hint
	veiled fixed  // in place of format where pieces must not be shown
}

// bad makes a badValue of which every argument that is not fixed may be a piece
// of the value.
func bad(hint, format fixed, pieces ...any) *badValue {
	return &badValue{format: format, pieces: pieces, hint: hint}
}

// guess adds a hint that has pieces of the value.
func (e *badValue) guess(hint string) *badValue {
	e.better = hint
	return e
}

// hidden adds the message for a value that must not be shown, where the value
// as a whole makes no sense in the place of its piece.
func (e *badValue) hidden(message fixed) *badValue {
	e.veiled = message
	return e
}

// badWord refuses a word that is none of a set; format has one %s for it.
func badWord(word string, values []string, format fixed) *badValue {
	all := strings.Join(values[:len(values)-1], ", ")
	if all != "" {
		all += " or "
	}
	all += values[len(values)-1]
	e := bad(fixed("write "+all), format, quote(word))
	if near := nearest(word, values); near != "" {
		e.better = fmt.Sprintf("did you mean %s? it is %s", near, all)
	}
	return e
}

// Error tells the message with the pieces of the value.
func (e *badValue) Error() string { return fmt.Sprintf(string(e.format), e.pieces...) }

// told returns message and hint for a value that was written as shown; hide
// says that nothing of it may be told but that.
func (e *badValue) told(shown string, hide bool) (message, hint string) {
	hint = string(e.hint)
	switch {
	case !hide:
		if e.better != "" {
			hint = e.better
		}
		return e.Error(), hint
	case e.veiled != "":
		return string(e.veiled), hint
	}
	safe := make([]any, len(e.pieces))
	for i, p := range e.pieces {
		if _, ok := p.(fixed); !ok {
			p = quote(shown)
		}
		safe[i] = p
	}
	return fmt.Sprintf(string(e.format), safe...), hint
}

// hide notes how a scalar was written whose value must not be shown, or that
// it may be.
func (l *loader) hide(path string, n *node) {
	if n.kind == scalar && n.text != n.shown {
		l.hidden[path] = n.shown
	} else {
		delete(l.hidden, path)
	}
}

// isHidden reports whether the value of a key must not be shown.
func (l *loader) isHidden(key string) bool { _, ok := l.hidden[key]; return ok }

// show is what a message may show of a value: the value, or how it was written.
func (l *loader) show(key, value string) string {
	if shown, ok := l.hidden[key]; ok {
		return shown
	}
	return value
}

// quoted is show in quotes.
func (l *loader) quoted(key, value string) string { return quote(l.show(key, value)) }

// shownKey is a path as a problem names it: an item whose name must not be
// shown goes by its number.
func shownKey(renamed map[string]string, path string) string {
	if len(renamed) == 0 {
		return path
	}
	for end := 0; end <= len(path); end++ {
		if end < len(path) && path[end] != '.' && path[end] != '[' {
			continue
		}
		if to, ok := renamed[path[:end]]; ok {
			return to + path[end:]
		}
	}
	return path
}

func (l *loader) shownKey(path string) string { return shownKey(l.renamed, path) }
