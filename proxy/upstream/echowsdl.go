package upstream

import (
	"io"
	"net/http"
	"strings"

	"soapway/internal/field"
	"soapway/proxy"
)

// echoWSDL describes builtin:echo. Its address is the name of the node, in
// place of which callers get the one under which they reach it.
const echoWSDL = `<?xml version="1.0" encoding="UTF-8"?>
<wsdl:definitions name="Echo" targetNamespace="urn:soapway:echo"
    xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:e="urn:soapway:echo" xmlns:xs="http://www.w3.org/2001/XMLSchema"
    xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:soap12="http://schemas.xmlsoap.org/wsdl/soap12/">
  <wsdl:documentation>The echo service of the gateway answers every message with that message.</wsdl:documentation>
  <wsdl:types>
    <xs:schema targetNamespace="urn:soapway:echo" elementFormDefault="qualified">
      <xs:element name="Echo">
        <xs:complexType>
          <xs:sequence><xs:element name="text" type="xs:string" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
        </xs:complexType>
      </xs:element>
    </xs:schema>
  </wsdl:types>
  <wsdl:message name="Echo"><wsdl:part name="parameters" element="e:Echo"/></wsdl:message>
  <wsdl:portType name="Echo">
    <wsdl:operation name="Echo"><wsdl:input message="e:Echo"/><wsdl:output message="e:Echo"/></wsdl:operation>
  </wsdl:portType>
  <wsdl:binding name="Echo11" type="e:Echo">
    <soap:binding style="document" transport="http://schemas.xmlsoap.org/soap/http"/>
    <wsdl:operation name="Echo">
      <soap:operation soapAction="urn:soapway:echo:Echo"/>
      <wsdl:input><soap:body use="literal"/></wsdl:input>
      <wsdl:output><soap:body use="literal"/></wsdl:output>
    </wsdl:operation>
  </wsdl:binding>
  <wsdl:binding name="Echo12" type="e:Echo">
    <soap12:binding style="document" transport="http://schemas.xmlsoap.org/soap/http"/>
    <wsdl:operation name="Echo">
      <soap12:operation soapAction="urn:soapway:echo:Echo"/>
      <wsdl:input><soap12:body use="literal"/></wsdl:input>
      <wsdl:output><soap12:body use="literal"/></wsdl:output>
    </wsdl:operation>
  </wsdl:binding>
  <wsdl:service name="Echo">
    <wsdl:port name="Echo11" binding="e:Echo11"><soap:address location="builtin:echo"/></wsdl:port>
    <wsdl:port name="Echo12" binding="e:Echo12"><soap12:address location="builtin:echo"/></wsdl:port>
  </wsdl:service>
</wsdl:definitions>
`

// described answers GET and HEAD for the description of echo; nil if something
// else is asked for.
func described(header *field.List, req *proxy.Request) *proxy.Response {
	name, _, _ := strings.Cut(req.Query, "=")
	if req.Method != http.MethodGet && req.Method != http.MethodHead || !strings.EqualFold(name, "wsdl") && !strings.EqualFold(name, "singleWsdl") {
		return nil
	}
	header.Set("Content-Type", "text/xml; charset=utf-8")
	resp := &proxy.Response{Status: http.StatusOK, Header: *header, Length: int64(len(echoWSDL))}
	if req.Method == http.MethodGet {
		resp.Body = io.NopCloser(strings.NewReader(echoWSDL))
	}
	return resp
}
