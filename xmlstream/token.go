package xmlstream

// Kind tells what the scanner's current token is.
type Kind byte

// The kinds of token.
const (
	Declaration Kind = iota + 1 // <?xml version="1.0"?>
	Start                       // <a …>, and the first half of <a/>
	End                         // </a>, and the second half of <a/>, whose Raw is empty
	Text                        // a run of character data, references not replaced
	CDATA                       // <![CDATA[…]]>, or a piece of one
	Comment                     // <!--…-->, or a piece of one
	ProcInst                    // <?target …?>, or a piece of one
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Declaration:
		return "declaration"
	case Start:
		return "start"
	case End:
		return "end"
	case Text:
		return "text"
	case CDATA:
		return "cdata"
	case Comment:
		return "comment"
	case ProcInst:
		return "procinst"
	}
	return "none"
}
