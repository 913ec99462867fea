package xmlstream

import (
	"strings"
	"testing"
	"unicode/utf16"
)

// TestConversionMendsNoDeclaration: the encoding is taken out of a declaration
// of a converted document only if the declaration is legal as it stands.
func TestConversionMendsNoDeclaration(t *testing.T) {
	for declaration, legal := range map[string]bool{
		`<?xml version="1.0" encoding="UTF-16"?>`:                                              true,
		`<?xml version='1.0'  encoding = 'UTF-16'  standalone='no' ?>`:                         true,
		`<?xml version="1.0"?>`:                                                                true,
		`<?xml encoding="UTF-16" version="1.0"?>`:                                              false,
		`<?xml version="1.0"encoding="UTF-16"?>`:                                               false,
		`<?xml version="1.0" encoding="UTF-16" encoding="UTF-16"?>`:                            false,
		`<?xml version="1.0" standalone="yes" encoding="UTF-16"?>`:                             false,
		`<?xml version="1.0" encoding="-16"?>`:                                                 false,
		`<?xml version="1.0" encoding="UTFℼ16"?>`:                                              false,
		`<?xml version="1.0" encoding=""?>`:                                                    false,
		`<?xml version="1.0" encoding="UTF-16" more="x"?>`:                                     false,
		`<?xml encoding="UTF-16"?>`:                                                            false,
		`<?xml version="1.0" encoding="UTF-16"?x>`:                                             false,
		strings.Replace(`<?xml version="1.0" encoding="X"?>`, "X", strings.Repeat("n", 10), 1): true,
	} {
		doc := []byte{0xFE, 0xFF}
		for _, u := range utf16.Encode([]rune(declaration + "<a/>")) {
			doc = append(doc, byte(u>>8), byte(u))
		}
		utf8, _, err := DecodeBytes(doc, "")
		if err == nil {
			s := NewScanner(Limits{})
			for s.ResetBytes(utf8); err == nil; {
				_, err = s.Next()
			}
			if err.Error() == "EOF" {
				err = nil
			}
		}
		if (err == nil) != legal {
			t.Errorf("%s: got %v, want legal %v (as %q)", declaration, err, legal, utf8)
		}
	}
}
