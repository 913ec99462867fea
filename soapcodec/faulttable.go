package soapcodec

import (
	"errors"
	"net/http"

	"soapway/xmlstream"
)

// Code is the stable code of a fault that the gateway makes; it stands in
// detail/{urn:soapway:fault}code.
type Code string

// The codes. What each is answered with stands in faultTable.
const (
	CodeNotWellFormed        Code = "NotWellFormed" // also namespace errors
	CodeDoctype              Code = "Doctype"
	CodeCharset              Code = "Charset"         // unknown charset, undecodable octets
	CodeContentEncoding      Code = "ContentEncoding" // corrupt gzip and its like
	CodeLimit                Code = "Limit"
	CodeInvalidEnvelope      Code = "InvalidEnvelope" // the structure of the envelope
	CodePackage              Code = "InvalidPackage"  // the structure of multipart/related
	CodeIncomplete           Code = "Incomplete"      // the request broke off
	CodeVersionMismatch      Code = "VersionMismatch"
	CodeMustUnderstand       Code = "MustUnderstand"
	CodeStrict               Code = "Strict"  // a rule of StrictRules is broken
	CodeSigned               Code = "Signed"  // a signature forbids what the route asks for
	CodeNoRoute              Code = "NoRoute" // from here on: framed only, over HTTP a status says it
	CodeNotAuthorised        Code = "NotAuthorised"
	CodeFailedAuthentication Code = "FailedAuthentication" // by WS-Security
	CodeTooLarge             Code = "TooLarge"             // also: does not fit a framed node
	CodeBusy                 Code = "Busy"
	CodeOutcomeUnknown       Code = "OutcomeUnknown"
	CodeInvalidCardinality   Code = "InvalidCardinality" // of WS-Addressing: two MessageIDs
	CodeInvalidAddress       Code = "InvalidAddress"     // of WS-Addressing: no answer can go there
	CodeIDReused             Code = "IDReused"           // a repeat with another Body
	CodeDeadLettered         Code = "DeadLettered"       // a repeat of a message that could not be delivered
	CodeUnknownOperation     Code = "UnknownOperation"   // the WSDL does not have it
	CodeReplyTooLarge        Code = "ReplyTooLarge"
	CodeBackendUnavailable   Code = "BackendUnavailable" // not sent
	CodeBackendTimeout       Code = "BackendTimeout"
	CodeBackendBroken        Code = "BackendBroken" // broke off
	CodeBackendNotSOAP       Code = "BackendNotSOAP"
	CodeInternal             Code = "Internal"
)

// A class is a fault code of SOAP with its HTTP status (SOAP 1.1 §4.4.1, §6.2;
// SOAP 1.2 Part 1 §5.4.6, Part 2 §7.5.2.2 table 20). A fault always has a
// status of its class, because SOAP 1.1 knows no fault but on 500.
//
// sub is what another specification calls the fault. SOAP 1.1 has one code, and
// it is that one, as these specifications say; SOAP 1.2 has it as Subcode.
type class struct {
	local11, local12   string
	status11, status12 int
	sub                QName
}

var (
	senderClass          = class{"Client", "Sender", http.StatusInternalServerError, http.StatusBadRequest, QName{}}
	receiverClass        = class{"Server", "Receiver", http.StatusInternalServerError, http.StatusInternalServerError, QName{}}
	versionMismatchClass = class{"VersionMismatch", "VersionMismatch", http.StatusInternalServerError, http.StatusInternalServerError, QName{}}
	mustUnderstandClass  = class{"MustUnderstand", "MustUnderstand", http.StatusInternalServerError, http.StatusInternalServerError, QName{}}
)

// failedAuthentication is a fault of SOAP Message Security 1.1 §12.
var failedAuthentication = class{
	"Client", "Sender", http.StatusInternalServerError, http.StatusBadRequest,
	QName{nsSecurity[0], "FailedAuthentication"},
}

// invalidCardinality is a fault of WS-Addressing 1.0 - SOAP Binding §6.4.1.
var invalidCardinality = class{
	"Client", "Sender", http.StatusInternalServerError, http.StatusBadRequest,
	QName{nsAddressing, "InvalidCardinality"},
}

// invalidAddress is a fault of WS-Addressing 1.0 - SOAP Binding §6.4.1.
var invalidAddress = class{
	"Client", "Sender", http.StatusInternalServerError, http.StatusBadRequest,
	QName{nsAddressing, "InvalidAddress"},
}

// A faultRow is all there is to a code: a new code is a new row.
type faultRow struct {
	code Code
	class
	reason string // the default text, a sentence without its full stop
}

var faultTable = [...]faultRow{
	{CodeNotWellFormed, senderClass, "The message is not well-formed XML"},
	{CodeDoctype, senderClass, "A SOAP message must not contain a document type declaration"},
	{CodeCharset, senderClass, "The character encoding of the message is unknown or broken"},
	{CodeContentEncoding, senderClass, "The content coding of the message is broken"},
	{CodeLimit, senderClass, "The message exceeds a limit"},
	{CodeInvalidEnvelope, senderClass, "The message is not a valid SOAP envelope"},
	{CodePackage, senderClass, "The multipart message is broken"},
	{CodeIncomplete, senderClass, "The message ended too early"},
	{CodeVersionMismatch, versionMismatchClass, "The message is not in a SOAP version that is accepted here"},
	{CodeMustUnderstand, mustUnderstandClass, "A mandatory header block is not understood"},
	{CodeStrict, senderClass, "The message breaks a rule that is enforced here"},
	{CodeSigned, receiverClass, "The message is signed and can not be changed as this service needs it"},
	{CodeNoRoute, senderClass, "There is no service for this message"},
	{CodeNotAuthorised, senderClass, "The sender is not authorised"},
	{CodeFailedAuthentication, failedAuthentication, "The user name or its password could not be verified"},
	{CodeTooLarge, senderClass, "The message is too large"},
	{CodeBusy, receiverClass, "The service is busy, try again later"},
	{CodeOutcomeUnknown, receiverClass, "It is not known whether the message was accepted; it may be sent again with the same id"},
	{CodeInvalidCardinality, invalidCardinality, "The message has more than one MessageID"},
	{CodeInvalidAddress, invalidAddress, "The message asks for its answer to be sent to an address that is not allowed here"},
	{CodeIDReused, senderClass, "The id of this message was used before, for a message with another Body"},
	{CodeDeadLettered, receiverClass, "The message was accepted before and could not be delivered; it waits for an operator or was dropped"},
	{CodeUnknownOperation, senderClass, "The service has no such operation"},
	{CodeReplyTooLarge, receiverClass, "The reply is too large for this connection"},
	{CodeBackendUnavailable, receiverClass, "The service is not available; the message was not delivered"},
	{CodeBackendTimeout, receiverClass, "The service did not answer in time"},
	{CodeBackendBroken, receiverClass, "The service broke off its answer"},
	{CodeBackendNotSOAP, receiverClass, "The service did not answer with a SOAP message"},
	{CodeInternal, receiverClass, "The gateway could not process the message"},
}

// row returns the row of a code; an unknown one is an internal error.
func (c Code) row() *faultRow {
	for i := range faultTable {
		if faultTable[i].code == c {
			return &faultTable[i]
		}
	}
	return &faultTable[len(faultTable)-1]
}

// codeOf finds the code for a fault that package xmlstream reports.
func codeOf(err error) Code {
	switch {
	case errors.Is(err, xmlstream.ErrDoctype):
		return CodeDoctype
	case errors.Is(err, xmlstream.ErrCharset):
		return CodeCharset
	case errors.Is(err, xmlstream.ErrLimit):
		return CodeLimit
	}
	return CodeNotWellFormed
}
