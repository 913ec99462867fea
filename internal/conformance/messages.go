package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Refusal is the fault that answers a message which is no good envelope.
type Refusal struct {
	Fault  string // local name of the fault code: Client, Sender or VersionMismatch
	Code   string // the gateway's own code in the detail, a soapcodec.Code
	Reason string // what is wrong with the message, for the reader of a report
}

var (
	notWellFormed = Refusal{"Sender", "NotWellFormed", "an end tag that matches no start tag"}
	doctype       = Refusal{"Sender", "Doctype", "a DOCTYPE"}
	instruction   = Refusal{"Sender", "InvalidEnvelope", "a processing instruction beside Body"}
	noBody        = Refusal{"Sender", "InvalidEnvelope", "no Body"}
	trailer       = Refusal{"Sender", "InvalidEnvelope", "an element after Body"}
	notBoolean    = Refusal{"Sender", "InvalidEnvelope", "a mustUnderstand that is no xs:boolean"}
	version       = Refusal{"VersionMismatch", "VersionMismatch", "no Envelope of a known namespace"}
)

// Refused lists the messages that must be refused, by their slashed path below
// the corpus; all others are envelopes and must be accepted.
var Refused = map[string]Refusal{
	"soap12-testcollection/axis2/ReplyMessages/SOAP12ReqT24.xml":              version,
	"soap12-testcollection/axis2/ReplyMessages/SOAP12ResT30.xml":              version,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT14.xml":            notBoolean,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT23.xml":            notBoolean,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT24.xml":            version,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT25.xml":            doctype,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT26.xml":            instruction,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT30.xml":            version,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT39.xml":            notBoolean,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT69.xml":            noBody,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT7_A.xml":           notWellFormed,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT8_A.xml":           notWellFormed,
	"soap12-testcollection/php/T14-request.xml":                               notBoolean,
	"soap12-testcollection/php/T23-request.xml":                               notBoolean,
	"soap12-testcollection/php/T24-request.xml":                               version,
	"soap12-testcollection/php/T25-request.xml":                               doctype,
	"soap12-testcollection/php/T26-request.xml":                               instruction,
	"soap12-testcollection/php/T39-request.xml":                               notBoolean,
	"soap12-testcollection/php/T64-request.xml":                               doctype,
	"soap12-testcollection/php/T65-request.xml":                               doctype,
	"soap12-testcollection/php/T69-request.xml":                               noBody,
	"soap12-testcollection/php/T70-request.xml":                               trailer,
	"interop-soapbuilders/Round4/GroupH/r4_groupH_soapfault_003w-request.xml": version,
	"messages/notwf_27k_amadeus_bare_ampersand_s11.xml":                       {"Client", "NotWellFormed", "a bare ampersand"},
	"messages/payload_ubl_invoice_peppol.xml":                                 version,
}

// Collections are the folders of the corpus that hold messages.
var Collections = []string{"soap12-testcollection", "interop-soapbuilders", "messages"}

// fewestMessages is how many a complete corpus has at least.
const fewestMessages = 700

// Messages reads the XML messages of the [Collections] below the folder corpus,
// by their slashed path below it. A folder that is absent or holds only a part of
// the collections is an error.
func Messages(corpus string) (map[string][]byte, error) {
	messages := map[string][]byte{}
	for _, collection := range Collections {
		err := filepath.WalkDir(filepath.Join(corpus, collection), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".xml" {
				return err
			}
			name, err := filepath.Rel(corpus, path)
			if err != nil {
				return err
			}
			messages[filepath.ToSlash(name)], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("conformance: %w", err)
		}
	}
	if len(messages) < fewestMessages {
		return nil, fmt.Errorf("conformance: %d messages in %s, want at least %d", len(messages), corpus, fewestMessages)
	}
	return messages, nil
}
