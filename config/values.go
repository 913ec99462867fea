package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// none is the number that stands for the word none in [Duration], [Size] and
// [Count].
const none = -1

// Duration is a time.Duration written as Go does, with d for days: 1d12h.
// Negative means none, that is unlimited.
type Duration time.Duration

// None reports whether d is unlimited.
func (d Duration) None() bool { return d < 0 }

// Or returns d, or unlimited if d is none.
func (d Duration) Or(unlimited time.Duration) time.Duration {
	if d < 0 {
		return unlimited
	}
	return time.Duration(d)
}

// String writes d so that it reads back, in whole days where it can.
func (d Duration) String() string {
	const day = 24 * time.Hour
	t := time.Duration(d)
	switch {
	case t < 0:
		return "none"
	case t >= day && t%day == 0:
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size is a number of bytes. Negative means none, that is unlimited.
type Size int64

// None reports whether s is unlimited.
func (s Size) None() bool { return s < 0 }

// String writes s so that it reads back, in the largest binary unit that
// divides it.
func (s Size) String() string {
	if s < 0 {
		return "none"
	}
	for _, u := range []struct {
		name string
		n    Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s >= u.n && s%u.n == 0 {
			return strconv.FormatInt(int64(s/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Count is a whole number. Negative means none, that is unlimited.
type Count int64

// None reports whether c is unlimited.
func (c Count) None() bool { return c < 0 }

// String writes c so that it reads back.
func (c Count) String() string {
	if c < 0 {
		return "none"
	}
	return strconv.FormatInt(int64(c), 10)
}

// Rate is a number of events in a time. The zero value is none, that is
// unlimited.
type Rate struct {
	Events int64
	Per    time.Duration // a second or a minute
}

// None reports whether r is unlimited.
func (r Rate) None() bool { return r.Events == 0 }

// String writes r so that it reads back.
func (r Rate) String() string {
	switch {
	case r.None():
		return "none"
	case r.Per == time.Minute:
		return strconv.FormatInt(r.Events, 10) + "/m"
	}
	return strconv.FormatInt(r.Events, 10) + "/s"
}

// redacted is what a secret prints as.
const redacted = "[redacted]"

// Secret is a value that must not be seen: every way of printing, encoding or
// logging it gives [redacted], or nothing where it is empty. Only
// [Secret.Reveal] gives it out.
type Secret struct {
	value string
	file  string // where it was read from, for Config.Files
}

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value.
func (s Secret) Reveal() string { return s.value }

// File is the file that the value was read from, empty if it was given itself.
func (s Secret) File() string { return s.file }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.value == "" }

// String hides the value.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return redacted
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return "config.Secret(" + strconv.Quote(s.String()) + ")" }

// Format hides the value from every verb.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = s.GoString()
	case verb == 'q':
		text = strconv.Quote(text)
	}
	// A fmt.State keeps its own error; there is nobody else to tell.
	_, _ = f.Write([]byte(text))
}

// MarshalText hides the value from encoding/json and others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML hides the value from YAML encoders.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Equal reports whether both have the same value.
func (s Secret) Equal(t Secret) bool { return s.value == t.value }

// URL is an absolute URL whose password, if it has one, is not printed. The
// zero value is no URL.
type URL struct{ raw string }

// Reveal returns the URL as written, credentials included.
func (u URL) Reveal() string { return u.raw }

// IsZero reports whether there is no URL.
func (u URL) IsZero() bool { return u.raw == "" }

// String returns the URL with its credentials and its query hidden: either may
// be what lets a caller in.
func (u URL) String() string {
	if u.raw == "" {
		return ""
	}
	p, err := url.Parse(u.raw)
	if err != nil {
		return redacted
	}
	if p.User != nil {
		p.User = url.User("redacted")
	}
	if p.RawQuery != "" {
		p.RawQuery = "redacted"
	}
	return p.String()
}

// GoString hides what String hides.
func (u URL) GoString() string { return "config.URL(" + strconv.Quote(u.String()) + ")" }

// MarshalText writes what String does.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue logs what String does.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// Equal reports whether both are the same URL, credentials included.
func (u URL) Equal(v URL) bool { return u.raw == v.raw }

// File is the path of a file or folder, made relative to the folder of the
// configuration file while loading; empty is none.
type File string
