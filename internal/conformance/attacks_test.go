package conformance

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"soapway/xmlstream"
)

// TestAttacks: documents with entities that grow, repeat, name themselves or
// files are refused at "<!DOCTYPE", and nothing behind it is read.
func TestAttacks(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(corpus(), "attacks", "*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("no attacks in %s: CORPUS names the folder of the collections", corpus())
	}
	refused, accepted := 0, 0
	for _, path := range paths {
		name := filepath.Base(path)
		doc, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(doc, []byte("<!D"))
		if at < 0 {
			if err := scanBytes(doc); err != nil {
				t.Errorf("%s: got %v, want it accepted: it has no DOCTYPE", name, err)
			}
			accepted++
			continue
		}
		refused++
		// A read behind the keyword would be told from the refusal by its own error.
		behind := errors.New("read on")
		head := doc[:at+len("<!DOCTYPE")]
		for way, r := range map[string]io.Reader{
			"at once":        bytes.NewReader(doc),
			"octet by octet": iotest.OneByteReader(io.MultiReader(bytes.NewReader(head), iotest.ErrReader(behind))),
		} {
			s := xmlstream.NewScanner(xmlstream.Limits{})
			s.Reset(r)
			err := drain(s)
			e, ok := errors.AsType[*xmlstream.SyntaxError](err)
			if !ok || !errors.Is(err, xmlstream.ErrDoctype) || e.Offset != int64(at) {
				t.Errorf("%s %s: got %v, want the DOCTYPE error at %d", name, way, err, at)
			}
		}
	}
	if refused < 7 || accepted < 2 {
		t.Errorf("%d attacks, %d harmless documents, want at least 7 and 2", refused, accepted)
	}
	t.Logf("attacks by entities\n%d refused at <!DOCTYPE, of which nothing more is read, %d without a DOCTYPE accepted", refused, accepted)
}
