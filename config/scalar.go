package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setScalar stores text in v, which is of a leaf type. shown is what a message
// may quote of it.
func (l *loader) setScalar(v reflect.Value, text, shown string, r rules) error {
	switch p := v.Addr().Interface().(type) {
	case *Duration:
		return store(p, parseDuration, text, shown, r)
	case *Size:
		return store(p, parseSize, text, shown, r)
	case *Count:
		return store(p, parseCount, text, shown, r)
	case *Rate:
		return store(p, parseRate, text, shown, r)
	case *Secret:
		secret, err := l.secret(text)
		*p = secret
		return err
	case *URL:
		return store(p, parseURL, text, shown, r)
	case *File:
		return l.file(p, text, r)
	case *NodeURL:
		return store(p, parseNodeURL, text, shown, r)
	case *PathPattern:
		return store(p, parsePathPattern, text, shown, r)
	case *netip.Prefix:
		return store(p, parsePrefix, text, shown, r)
	case *HashBy:
		return store(p, parseHashBy, text, shown, r)
	case *QName:
		return store(p, l.parseQName, text, shown, r)
	case *OrderBy:
		return store(p, l.parseOrderBy, text, shown, r)
	case *DedupBy:
		return store(p, l.parseDedupBy, text, shown, r)
	case *WSDL:
		return l.wsdl(p, text, shown)
	case *Output:
		return l.output(p, text)
	case **string:
		if text == "" {
			return bad("remove the key to take any", "must not be empty")
		}
		*p = &text
		return nil
	case *string:
		return store(p, parseString, text, shown, r)
	case *bool:
		return store(p, parseBool, text, shown, r)
	case *int:
		return store(p, parseInt, text, shown, r)
	case *float64:
		return store(p, parseFloat, text, shown, r)
	case enum:
		if slices.Contains(p.values(), text) {
			v.SetString(text)
			return nil
		}
		return badWord(shown, p.values(), "%s is not a value of this key")
	}
	return fmt.Errorf("config: no scalar form of %v", v.Type())
}

// store parses text into *p.
func store[T any](p *T, parse func(text, shown string, r rules) (T, error), text, shown string, r rules) error {
	value, err := parse(text, shown, r)
	if err == nil {
		*p = value
	}
	return err
}

func parseString(text, shown string, r rules) (string, error) {
	switch {
	case r.required && text == "":
		return "", bad("", "must not be empty")
	case r.name && !isName(text):
		return "", bad("a name has lower case letters, digits and dashes, and begins with a letter", "%s is not a name", quote(shown))
	case r.address:
		return text, checkAddress(text, shown)
	case r.url:
		return text, checkPublicURL(text, shown)
	}
	return text, nil
}

// isName reports whether s is [a-z][a-z0-9-]*.
func isName(s string) bool {
	for i, c := range s {
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// isBackendName is isName with upper case and the underscore.
func isBackendName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func parseBool(text, shown string, _ rules) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, bad("write true or false", "%s is not true or false", quote(shown))
}

func parseInt(text, shown string, r rules) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, bad("write digits alone", "%s is not a whole number", quote(shown))
	case r.port && (n < 1 || n > 65535):
		return 0, bad("a port is 1 to 65535", "%v is not a port", n)
	case r.ranged && (float64(n) < r.lo || float64(n) > r.hi):
		return 0, bad(fixed(fmt.Sprintf("write %v to %v", r.lo, r.hi)), "%v is out of range", n)
	}
	if r.oneof != nil {
		if slices.Contains(r.oneof, text) {
			return n, nil
		}
		return 0, bad(fixed("write "+strings.Join(r.oneof, " or ")), "%v is not a value of this key", n)
	}
	return n, nil
}

func parseFloat(text, shown string, r rules) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		return 0, bad("write a number such as 0.5", "%s is not a number", quote(shown))
	case r.ranged && (f < r.lo || f > r.hi):
		return 0, bad(fixed(fmt.Sprintf("write %v to %v", r.lo, r.hi)), "%v is out of range", f)
	}
	return f, nil
}

// errZero is the refusal of 0 where it would switch something off by accident.
func errZero(r rules, least fixed) error {
	if r.none {
		return bad("write none for unlimited", "%s is not allowed", "0")
	}
	return bad("write at least "+least, "%s is not allowed", "0")
}

func parseCount(text, shown string, r rules) (Count, error) {
	if text == "none" {
		if r.none {
			return none, nil
		}
		return 0, bad("write a number", "%s is not allowed here", "none")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, bad("write digits alone", "%s is not a whole number", quote(shown))
	case n < 0:
		return 0, bad("", "%v is negative", n)
	case n == 0 && !r.zero:
		return 0, errZero(r, "1")
	case n > math.MaxInt32:
		return 0, bad(fixed(fmt.Sprintf("write at most %d", math.MaxInt32)), "%v is too large", n)
	}
	return Count(n), nil
}

func parseDuration(text, shown string, r rules) (Duration, error) {
	if text == "none" {
		if r.none {
			return none, nil
		}
		return 0, bad("write a time such as 30s", "%s is not allowed here", "none")
	}
	d, ok := scanDuration(text)
	if !ok {
		const hint = "write a number with a unit: ms, s, m, h or d, such as 30s or 1d12h"
		if _, negative := scanDuration(strings.TrimPrefix(text, "-")); negative {
			return 0, bad("", "%s is negative", quote(shown))
		}
		if _, err := strconv.ParseUint(text, 10, 64); err == nil {
			return 0, bad(hint, "%s is not a duration", quote(shown)).guess("add a unit, such as " + text + "s")
		}
		return 0, bad(hint, "%s is not a duration", quote(shown))
	}
	if d == 0 && !r.zero {
		return 0, errZero(r, "1ms")
	}
	return Duration(d), nil
}

// scanDuration reads what time.ParseDuration does, and days, which may stand
// anywhere and have a fraction. No sign.
func scanDuration(text string) (time.Duration, bool) {
	if text == "0" {
		return 0, true
	}
	var total time.Duration
	for first := true; text != "" || first; first = false {
		end := strings.IndexFunc(text, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
		if end < 1 {
			return 0, false
		}
		unit := len(text)
		if i := strings.IndexFunc(text[end:], func(c rune) bool { return c == '.' || c >= '0' && c <= '9' }); i >= 0 {
			unit = end + i
		}
		var part time.Duration
		var err error
		if text[end:unit] == "d" {
			part, err = time.ParseDuration(text[:end] + "h")
			if err == nil && part > math.MaxInt64/24 {
				return 0, false
			}
			part *= 24
		} else {
			part, err = time.ParseDuration(text[:unit])
		}
		if err != nil || total > math.MaxInt64-part {
			return 0, false
		}
		total += part
		text = text[unit:]
	}
	return total, true
}

// sizeUnits are the units of a size.
var sizeUnits = []struct {
	name string
	n    int64
}{{"B", 1}, {"kB", 1000}, {"MB", 1000 * 1000}, {"GB", 1000 * 1000 * 1000}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

func parseSize(text, shown string, r rules) (Size, error) {
	if text == "none" {
		if r.none {
			return none, nil
		}
		return 0, bad("write a size such as 1MiB", "%s is not allowed here", "none")
	}
	const hint = "write a number with a unit: B, kB, MB, GB, KiB, MiB or GiB"
	end := strings.IndexFunc(text, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	digits, unit := text, ""
	if end >= 0 {
		digits, unit = text[:end], strings.TrimPrefix(text[end:], " ")
	}
	if digits == "" || len(digits) > 40 {
		return 0, bad(hint, "%s is not a size", quote(shown))
	}
	number, ok := new(big.Rat).SetString(digits)
	if !ok {
		return 0, bad(hint, "%s is not a size", quote(shown))
	}
	factor := int64(0)
	if unit == "" {
		factor = 1
	}
	for _, u := range sizeUnits {
		if u.name == unit {
			factor = u.n
		}
	}
	if factor == 0 {
		for _, u := range sizeUnits {
			if strings.EqualFold(u.name, unit) {
				return 0, bad(hint, "%s is not a unit of size", quote(unit)).guess("did you mean " + digits + u.name + "?")
			}
			if len(unit) == 1 && len(u.name) == 3 && strings.EqualFold(u.name[:1], unit) {
				return 0, bad(hint, "%s is not a unit of size", quote(unit)).guess("did you mean " + digits + u.name + "?")
			}
		}
		return 0, bad(hint, "%s is not a unit of size", quote(unit))
	}
	number.Mul(number, new(big.Rat).SetInt64(factor))
	switch {
	case !number.IsInt():
		return 0, bad("", "%s is not a whole number of bytes", quote(shown))
	case !number.Num().IsInt64():
		return 0, bad("", "%s is too large", quote(shown))
	case number.Sign() == 0 && !r.zero:
		return 0, errZero(r, "1B")
	}
	return Size(number.Num().Int64()), nil
}

func parseRate(text, shown string, _ rules) (Rate, error) {
	if text == "none" {
		return Rate{}, nil
	}
	const hint = "write a number per second or minute, such as 100/s or 600/m"
	number, unit, found := strings.Cut(text, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	switch {
	case !found || err != nil || unit != "s" && unit != "m":
		return Rate{}, bad(hint, "%s is not a rate", quote(shown))
	case n < 0:
		return Rate{}, bad(hint, "%s is negative", quote(shown))
	case n == 0:
		return Rate{}, bad("write none for unlimited", "%s is not allowed", "0")
	case unit == "m":
		return Rate{Events: n, Per: time.Minute}, nil
	}
	return Rate{Events: n, Per: time.Second}, nil
}

func parsePrefix(text, shown string, _ rules) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, bad("write a network such as 10.0.0.0/8 or one address", "%s is not a network", quote(shown))
	case p.Masked() != p:
		return p, bad("write the address of the network", "%s has bits outside its mask", quote(shown)).guess("did you mean " + p.Masked().String() + "?")
	}
	return p, nil
}

// maxSecret is the size of a file of a secret.
const maxSecret = 64 << 10

// secret reads file:PATH, or takes the text. Messages never quote it.
func (l *loader) secret(text string) (Secret, error) {
	path, found := strings.CutPrefix(text, "file:")
	if !found {
		if strings.TrimSpace(text) == "" {
			return Secret{}, bad("give it a value, or remove the key", "must not be empty")
		}
		return NewSecret(text), nil
	}
	if path == "" {
		return Secret{}, bad("write file:PATH", "no path after file:")
	}
	path = l.abs(path)
	l.files[path] = true
	// Opening a pipe would wait for its writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Secret{}, bad("", "cannot read the secret: %s is not a regular file", quote(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, bad("check the path and the permissions", "cannot read the secret: %s: %v", quote(path), reasonOf(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return Secret{}, bad("check the path and the permissions", "cannot read the secret: %s: %v", quote(path), reasonOf(err))
	case len(data) > maxSecret:
		return Secret{}, bad("", "the file of the secret has more than %v", fixed(Size(maxSecret).String()))
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if strings.TrimSpace(value) == "" {
		return Secret{}, bad("", "the file of the secret is empty")
	}
	return Secret{value: value, file: path}, nil
}

// reasonOf is what the system says of a file, without operation and path.
func reasonOf(err error) fixed {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fixed(err.Error())
}

// abs returns a path that a key names, relative to the configuration file.
func (l *loader) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(l.dir, path)
}

// file stores a path. Files that must be there are noted for watching; that
// they exist is checked with what reads them.
func (l *loader) file(p *File, text string, r rules) error {
	if text == "" || strings.ContainsRune(text, 0) {
		return bad("", "the path is empty or has a zero octet")
	}
	*p = File(l.abs(text))
	if !r.dir && !r.out {
		l.files[string(*p)] = true
	}
	return nil
}

func (l *loader) wsdl(p *WSDL, text, shown string) error {
	switch {
	case text == string(WSDLAuto) || text == string(WSDLOff):
		*p = WSDL{Mode: WSDLMode(text)}
		return nil
	case strings.Contains(text, "://"):
		u, err := parseURL(text, shown, rules{schemes: []string{"http", "https"}})
		*p = WSDL{Mode: WSDLURL, URL: u}
		return err
	}
	*p = WSDL{Mode: WSDLFile}
	return l.file(&p.File, text, rules{})
}

func (l *loader) output(p *Output, text string) error {
	if text == string(OutputOff) || text == string(OutputStdout) {
		*p = Output{Mode: OutputMode(text)}
		return nil
	}
	*p = Output{Mode: OutputFile}
	return l.file(&p.File, text, rules{out: true})
}
