package xmlstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// wide writes s in UTF-16; tests use it for text with unpaired surrogates too.
func wide(big bool, s string) string {
	var b []byte
	put := func(u uint16) {
		if big {
			b = append(b, byte(u>>8), byte(u))
		} else {
			b = append(b, byte(u), byte(u>>8))
		}
	}
	for _, r := range s {
		if r >= 0x10000 {
			put(uint16(0xD800 + (r-0x10000)>>10))
			put(uint16(0xDC00 + (r-0x10000)&0x3FF))
			continue
		}
		put(uint16(r))
	}
	return string(b)
}

func encoded(t *testing.T, enc encoding.Encoding, s string) string {
	t.Helper()
	out, err := enc.NewEncoder().String(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecode(t *testing.T) {
	const mark = "\uFEFF"
	tests := []struct {
		name, doc, label string
		charset, want    string
	}{
		{"nothing", "", "", "utf-8", ""},
		{"default", "<a>\u00E9</a>", "", "utf-8", "<a>\u00E9</a>"},
		{"mark stays", mark + "<a/>", "", "utf-8", mark + "<a/>"},
		{"mark beats label", mark + "<a/>", "iso-8859-1", "utf-8", mark + "<a/>"},
		{"mark beats an unknown label", mark + "<a/>", "none-such", "utf-8", mark + "<a/>"},
		{"mark beats declaration", mark + "<?xml version='1.0' encoding='koi8-r'?><a/>", "", "utf-8", mark + "<?xml version='1.0' encoding='koi8-r'?><a/>"},
		{"utf-8 untouched", "<?xml version='1.0' encoding='UTF-8'?><a/>", "", "utf-8", "<?xml version='1.0' encoding='UTF-8'?><a/>"},
		{"bad utf-8 is the scanner's", "<a>\xFF</a>", "", "utf-8", "<a>\xFF</a>"},
		{"label beats declaration", "<?xml version='1.0' encoding='iso-8859-1'?><a>\u00E9</a>", "UTF-8", "utf-8", "<?xml version='1.0' encoding='iso-8859-1'?><a>\u00E9</a>"},
		{"label", "<a>\xE9</a>", "ISO-8859-1", "iso-8859-1", "<a>\u00E9</a>"},
		{"label with blanks", "<a>\xE9</a>", " Latin1 ", "iso-8859-1", "<a>\u00E9</a>"},
		{"label beats unknown declaration", "<?xml version='1.0' encoding='x'?><a>\xE9</a>", "latin1", "iso-8859-1", "<?xml version='1.0'?><a>\u00E9</a>"},

		{"utf-16le mark", "\xFF\xFE" + wide(false, "<a>\u20AC\U0001F600</a>"), "", "utf-16le", "<a>\u20AC\U0001F600</a>"},
		{"utf-16be mark", "\xFE\xFF" + wide(true, "<a>\u20AC\U0001F600</a>"), "", "utf-16be", "<a>\u20AC\U0001F600</a>"},
		{"utf-16 mark beats label", "\xFE\xFF" + wide(true, "<a/>"), "utf-8", "utf-16be", "<a/>"},
		{"utf-16 mark beats the other order", "\xFF\xFE" + wide(false, "<a/>"), "utf-16be", "utf-16le", "<a/>"},
		{"utf-16 mark beats declaration", "\xFF\xFE" + wide(false, "<?xml version='1.0' encoding='utf-8'?><a/>"), "", "utf-16le", "<?xml version='1.0'?><a/>"},
		{"utf-16le seen", wide(false, "<a>\u20AC</a>"), "", "utf-16le", "<a>\u20AC</a>"},
		{"utf-16be seen", wide(true, "<a>\u20AC</a>"), "", "utf-16be", "<a>\u20AC</a>"},
		{"utf-16be seen, declared", wide(true, "<?xml version='1.0' encoding='UTF-16' standalone='yes'?><a/>"), "", "utf-16be", "<?xml version='1.0' standalone='yes'?><a/>"},
		{"utf-16le label", wide(false, " <a/>"), "utf-16le", "utf-16le", " <a/>"},
		{"utf-16be label", wide(true, " <a/>"), "UTF-16BE", "utf-16be", " <a/>"},
		{"utf-16 label, little seen", wide(false, "<a/>"), "utf-16", "utf-16le", "<a/>"},
		{"utf-16 label, else big", wide(true, " <a/>"), "utf-16", "utf-16be", " <a/>"},

		{"declared", "<?xml version='1.0' encoding='windows-1252'?><a>\x80</a>", "", "windows-1252", "<?xml version='1.0'?><a>\u20AC</a>"},
		{"declared, double quotes", "<?xml version=\"1.0\" encoding = \"iso-8859-15\"  standalone=\"no\" ?><a>\xA4</a>", "", "iso-8859-15", "<?xml version=\"1.0\"  standalone=\"no\" ?><a>\u20AC</a>"},
		{"latin-1 is not windows-1252", "<?xml version='1.0' encoding='ISO-8859-1'?><a>\x80\x9F</a>", "", "iso-8859-1", "<?xml version='1.0'?><a>\u0080\u009F</a>"},
		{"latin-1 by another name", "<a>\x80</a>", "iso8859-1", "iso-8859-1", "<a>\u0080</a>"},
		{"latin-5 is not windows-1254", "<a>\xF0</a>", "iso-8859-9", "iso-8859-9", "<a>\u011F</a>"},
		{"ascii", "<?xml version='1.0' encoding='US-ASCII'?><a/>", "", "us-ascii", "<?xml version='1.0' encoding='US-ASCII'?><a/>"},
		{"koi8-r", "<a>" + encoded(t, charmap.KOI8R, "Привет") + "</a>", "koi8-r", "koi8-r", "<a>Привет</a>"},
		{"windows-1251", "<a>" + encoded(t, charmap.Windows1251, "Привет") + "</a>", "cp1251", "windows-1251", "<a>Привет</a>"},
		{"shift_jis", "<a>" + encoded(t, japanese.ShiftJIS, "日本ｶﾅ") + "</a>", "Shift_JIS", "shift_jis", "<a>日本ｶﾅ</a>"},
		{"windows-31j", "<a>" + encoded(t, japanese.ShiftJIS, "日本") + "</a>", "windows-31j", "shift_jis", "<a>日本</a>"},
		{"euc-jp", "<a>" + encoded(t, japanese.EUCJP, "日本ｶﾅ") + "</a>", "EUC-JP", "euc-jp", "<a>日本ｶﾅ</a>"},
		{"iso-2022-jp", "<a>" + encoded(t, japanese.ISO2022JP, "日本") + "</a>", "ISO-2022-JP", "iso-2022-jp", "<a>日本</a>"},
		{"gbk", "<a>" + encoded(t, simplifiedchinese.GBK, "中文") + "</a>", "GBK", "gbk", "<a>中文</a>"},
		{"gb2312", "<a>" + encoded(t, simplifiedchinese.GBK, "中文") + "</a>", "gb2312", "gbk", "<a>中文</a>"},
		{"gb18030", "<a>" + encoded(t, simplifiedchinese.GB18030, "中文\U0001F600") + "</a>", "GB18030", "gb18030", "<a>中文\U0001F600</a>"},
		{"gb18030 has U+FFFD", "<a>" + gb18030Unknown + gb18030Unknown + "x" + gb18030Unknown + "</a>", "GB18030", "gb18030", "<a>\uFFFD\uFFFDx\uFFFD</a>"},
		{"gb18030 mark", gb18030Mark + "<a/>", "GB18030", "gb18030", "<a/>"},
		{"big5", "<a>" + encoded(t, traditionalchinese.Big5, "中文") + "</a>", "Big5", "big5", "<a>中文</a>"},
		{"euc-kr", "<a>" + encoded(t, korean.EUCKR, "한국") + "</a>", "EUC-KR", "euc-kr", "<a>한국</a>"},
		{"not a declaration", "<?xmlfoo encoding='koi8-r'?><a/>", "", "utf-8", "<?xmlfoo encoding='koi8-r'?><a/>"},
		{"not at the start", " <?xml version='1.0' encoding='koi8-r'?><a/>", "", "utf-8", " <?xml version='1.0' encoding='koi8-r'?><a/>"},
		{"not stripped from a PI", "<?xmlfoo encoding='koi8-r'?><a/>", "koi8-r", "koi8-r", "<?xmlfoo encoding='koi8-r'?><a/>"},
	}
	used := new(Reader)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, charset, err := DecodeBytes([]byte(tt.doc), tt.label)
			if err != nil || string(got) != tt.want || charset != tt.charset {
				t.Fatalf("DecodeBytes(%q): got %q, %s, %v, want %q, %s", tt.doc, got, charset, err, tt.want, tt.charset)
			}
			same := charset == utf8Name || charset == usASCII
			if same && len(tt.doc) > 0 && string(got) != tt.doc {
				t.Errorf("DecodeBytes: converted %s", charset)
			}
			for _, src := range readers {
				r, err := NewReader(src.open([]byte(tt.doc)), tt.label)
				if err != nil {
					t.Fatalf("NewReader(%s): %v", src.name, err)
				}
				out, err := io.ReadAll(iotest.HalfReader(r))
				if err != nil || string(out) != tt.want || r.Charset() != tt.charset || r.Converted() == same {
					t.Errorf("Reader(%s): got %q, %s, converted %v, %v", src.name, out, r.Charset(), r.Converted(), err)
				}
				if err := used.Reset(src.open([]byte(tt.doc)), tt.label); err != nil {
					t.Fatalf("Reset(%s): %v", src.name, err)
				}
				if out, err := io.ReadAll(used); err != nil || string(out) != tt.want || used.Charset() != tt.charset {
					t.Errorf("Reader(%s) after a Reset: got %q, %s, %v", src.name, out, used.Charset(), err)
				}
			}
		})
	}
}

var readers = []struct {
	name string
	open func(doc []byte) io.Reader
}{
	{"whole", func(doc []byte) io.Reader { return bytes.NewReader(doc) }},
	{"one by one", func(doc []byte) io.Reader { return iotest.OneByteReader(bytes.NewReader(doc)) }},
	{"data with EOF", func(doc []byte) io.Reader { return iotest.DataErrReader(bytes.NewReader(doc)) }},
	{"random", func(doc []byte) io.Reader { return newChunks(doc, 3) }},
}

func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("日本", 9000)
	tests := []struct {
		name, doc, label string
		at               int
		line, column     int
		before           string // text delivered before the fault
	}{
		{"unknown label", "<a/>", "none-such", 0, 1, 1, ""},
		{"unknown declaration", "<?xml version='1.0' encoding='none-such'?><a/>", "", 0, 1, 1, ""},
		{"utf-7", "<a/>", "utf-7", 0, 1, 1, ""},
		{"utf-32", "<a/>", "utf-32", 0, 1, 1, ""},
		{"utf-32 mark", "\xFF\xFE\x00\x00<\x00\x00\x00", "", 0, 1, 1, ""},
		{"utf-32 mark, big", "\x00\x00\xFE\xFF\x00\x00\x00<", "", 0, 1, 1, ""},
		{"utf-32 seen", "<\x00\x00\x00a\x00\x00\x00", "", 0, 1, 1, ""},
		{"utf-32 seen, big", "\x00\x00\x00<\x00\x00\x00a", "", 0, 1, 1, ""},
		{"ebcdic seen", "\x4C\x6F\xA7\x94\x93", "", 0, 1, 1, ""},
		{"ebcdic label", "<a/>", "ibm037", 0, 1, 1, ""},
		{"ebcdic label", "<a/>", "ibm1047", 0, 1, 1, ""},
		{"replacement", "<a/>", "iso-2022-kr", 0, 1, 1, ""},
		{"user-defined", "<a/>", "x-user-defined", 0, 1, 1, ""},
		{"declared utf-16, is not", "<?xml version='1.0' encoding='UTF-16'?><a/>", "", 0, 1, 1, ""},
		{"declared utf-16le, is not", "<?xml version='1.0' encoding='utf-16le'?><a/>", "", 0, 1, 1, ""},
		{"ascii", "<a>\n\x80</a>", "us-ascii", 4, 2, 1, "<a>\n"},
		{"windows-1252 hole", "<a>x\x81</a>", "windows-1252", 4, 1, 5, "<a>x"},
		{"iso-8859-7 hole", "<a>\xFF</a>", "iso-8859-7", 3, 1, 4, "<a>"},
		{"utf-16 low alone", wide(true, "<a>") + "\xDC\x00" + wide(true, "</a>"), "", 6, 1, 4, "<a>"},
		{"utf-16 high alone", wide(true, "<a>") + "\xD8\x00" + wide(true, "</a>"), "", 6, 1, 4, "<a>"},
		{"utf-16 high at the end", wide(false, "<a>") + "\x00\xD8", "", 6, 1, 4, "<a>"},
		{"utf-16 odd", wide(false, "<a/>") + " ", "", 8, 1, 5, "<a/>"},
		{"utf-16 odd in a pair", wide(false, "<a/>") + "\x00\xD8\x00", "", 8, 1, 5, "<a/>"},
		{"shift_jis lead alone", "<a>\x81</a>", "shift_jis", 3, 1, 4, "<a>"},
		{"shift_jis at the end", "<a>\x81", "shift_jis", 3, 1, 4, "<a>"},
		{"euc-jp", "<a>\xA1</a>", "euc-jp", 3, 1, 4, "<a>"},
		{"euc-jp three", "<a>\x8F\xA1</a>", "euc-jp", 3, 1, 4, "<a>"},
		{"iso-2022-jp escape", "<a>\x1B$Z</a>", "iso-2022-jp", 3, 1, 4, "<a>"},
		{"iso-2022-jp high", "<a>\xE9</a>", "iso-2022-jp", 3, 1, 4, "<a>"},
		{"iso-2022-jp after an escape", "<a>\x1B$B\x21\x22\x7F\x7F", "iso-2022-jp", 8, 1, 7, "<a>、"},
		{"gbk", "<a>\xFF</a>", "gbk", 3, 1, 4, "<a>"},
		{"gb18030 after a real U+FFFD", "<a>" + gb18030Unknown + "x\xFF</a>", "gb18030", 8, 1, 8, "<a>\uFFFDx"},
		{"big5", "<a>\x80</a>", "big5", 3, 1, 4, "<a>"},
		{"euc-kr", "<a>\xFF</a>", "euc-kr", 3, 1, 4, "<a>"},
		{"far behind", "<a>\n" + encoded(t, japanese.EUCJP, long) + "\xA1</a>", "euc-jp", 4 + 2*18000, 2, 1 + len(long), "<a>\n" + long},
		{"far behind, with state", "<a>\n" + strings.TrimSuffix(encoded(t, japanese.ISO2022JP, long), "\x1B(B") + "\x7F\x7F</a>", "iso-2022-jp", 4 + 3 + 2*18000, 2, 1 + len(long), "<a>\n" + long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, err error) {
				t.Helper()
				se, ok := errors.AsType[*SyntaxError](err)
				if !ok || !errors.Is(err, ErrCharset) {
					t.Fatalf("%s: got %v, want a *SyntaxError with ErrCharset", how, err)
				}
				if se.Offset != int64(tt.at) || se.Line != tt.line || se.Column != tt.column {
					t.Errorf("%s: fault at %d, %d:%d, want %d, %d:%d", how, se.Offset, se.Line, se.Column, tt.at, tt.line, tt.column)
				}
			}
			_, _, err := DecodeBytes([]byte(tt.doc), tt.label)
			check("DecodeBytes", err)
			for _, src := range readers {
				r, err := NewReader(src.open([]byte(tt.doc)), tt.label)
				if err != nil {
					check("NewReader "+src.name, err)
					continue
				}
				out, err := io.ReadAll(r)
				check("Reader "+src.name, err)
				if string(out) != tt.before {
					t.Errorf("Reader %s: delivered %.40q, want %.40q", src.name, out, tt.before)
				}
			}
		})
	}
}

// A second byte order mark is a character outside the root element.
func TestDecodeSecondMark(t *testing.T) {
	doc := "\xFF\xFE\xFF\xFE" + wide(false, "<a/>")
	if _, _, err := DecodeBytes([]byte(doc), ""); !errors.Is(err, ErrMalformed) {
		t.Errorf("DecodeBytes: got %v", err)
	}
	r, err := NewReader(strings.NewReader(doc), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, ErrMalformed) {
		t.Errorf("Reader: got %v", err)
	}
}

// A declaration that hides its encoding behind white space must not make the
// reader remember without bound.
func TestDecodeLongDeclaration(t *testing.T) {
	doc := "<?xml version='1.0'" + strings.Repeat(" ", 4000) + "encoding='koi8-r'?><a/>"
	if _, _, err := DecodeBytes([]byte(doc), "latin1"); !errors.Is(err, errLongDeclared) {
		t.Errorf("DecodeBytes: got %v", err)
	}
	for _, src := range readers {
		r, err := NewReader(src.open([]byte(doc)), "latin1")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(r); !errors.Is(err, errLongDeclared) || len(out) > 0 {
			t.Errorf("Reader %s: got %q, %v", src.name, out, err)
		}
	}
}

// Every charset of the two indices is decoded as x/text does, octet pair by
// octet pair, and refused where x/text would put U+FFFD.
func TestDecodeAgrees(t *testing.T) {
	names := []string{
		"ibm866", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-7", "iso-8859-8", "iso-8859-10", "iso-8859-13", "iso-8859-14",
		"iso-8859-15", "iso-8859-16", "koi8-r", "koi8-u", "macintosh", "windows-874", "windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254",
		"windows-1255", "windows-1256", "windows-1257", "windows-1258", "x-mac-cyrillic", "gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr",
	}
	for _, name := range names {
		enc, err := htmlindex.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for a := 0x20; a < 0x100; a++ {
			for b := 0x30; b < 0x100; b += 3 {
				doc := []byte{' ', byte(a), byte(b), ' '}
				want, err := enc.NewDecoder().Bytes(doc)
				if err != nil {
					t.Fatal(err)
				}
				got, _, err := DecodeBytes(doc, name)
				if bytes.Contains(want, []byte("\uFFFD")) {
					if !errors.Is(err, ErrCharset) {
						t.Fatalf("DecodeBytes(% x, %s): got %q, %v, want a fault", doc, name, got, err)
					}
				} else if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("DecodeBytes(% x, %s): got %q, %v, want %q", doc, name, got, err, want)
				}
			}
		}
	}
}

func TestReaderPassesErrors(t *testing.T) {
	if _, err := NewReader(iotest.ErrReader(errBroken), ""); err != errBroken {
		t.Errorf("NewReader: got %v", err)
	}
	for _, doc := range []string{"<a>", "<?xml version='1.0'", "\xFF\xFE" + wide(false, "<a>"), "\xFF\xFE<", "<?xml version='1.0' encoding='koi8-r'?><a>", "<?xml version='1.0' encoding='koi8-r'"} {
		r, err := NewReader(broken([]byte(doc)), "")
		if err != nil {
			t.Fatalf("NewReader(%q): %v", doc, err)
		}
		if _, err := io.ReadAll(r); err != errBroken {
			t.Errorf("Reader(%q): got %v, want the reader's error", doc, err)
		}
	}
}

// A failed Reset leaves a reader that repeats the error, and a next document
// starts afresh.
func TestReaderReset(t *testing.T) {
	r := new(Reader)
	for _, label := range []string{"none-such", "utf-8", "koi8-r", "none-such"} {
		err := r.Reset(strings.NewReader("<a/>"), label)
		out, again := io.ReadAll(r)
		if label == "none-such" {
			if !errors.Is(err, ErrCharset) || again != err || len(out) > 0 {
				t.Errorf("Reset(%s): got %v, then %q, %v", label, err, out, again)
			}
		} else if err != nil || again != nil || string(out) != "<a/>" {
			t.Errorf("Reset(%s): got %v, then %q, %v", label, err, out, again)
		}
	}
	if err := r.Reset(idle{}, ""); err != io.ErrNoProgress {
		t.Errorf("Reset over an idle reader: got %v", err)
	}
}

// What is asked for is delivered without waiting for more of the stream than
// the octets at hand need.
func TestReaderDoesNotWait(t *testing.T) {
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() {
		io.WriteString(pw, "<?xml version='1.0' encoding='koi8-r'?><a>")
		// The pipe stays open: a reader that wants more than it needs hangs here.
	}()
	r, err := NewReader(pr, "")
	if err != nil {
		t.Fatal(err)
	}
	s := NewScanner(Limits{})
	s.Reset(r)
	for _, want := range []Kind{Declaration, Start} {
		if k, err := s.Next(); k != want || err != nil {
			t.Fatalf("Next: got %v, %v, want %v", k, err, want)
		}
	}
}
