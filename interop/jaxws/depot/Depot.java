package depot;

import jakarta.jws.WebMethod;
import jakarta.jws.WebParam;
import jakarta.jws.WebResult;
import jakarta.jws.WebService;
import jakarta.jws.soap.SOAPBinding;
import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlElement;
import jakarta.xml.bind.annotation.XmlRootElement;

/** The port type of depot.wsdl. */
@WebService(name = "DepotPort", targetNamespace = Depot.NS)
@SOAPBinding(parameterStyle = SOAPBinding.ParameterStyle.BARE)
public interface Depot {
    String NS = "urn:example:depot";

    @WebMethod(operationName = "Quote", action = "urn:example:depot#Quote")
    @WebResult(name = "QuoteResponse", targetNamespace = NS, partName = "body")
    QuoteResponse quote(@WebParam(name = "Quote", targetNamespace = NS, partName = "body") Quote in);

    @WebMethod(operationName = "Label", action = "urn:example:depot#Label")
    @WebResult(name = "LabelResponse", targetNamespace = NS, partName = "body")
    LabelResponse label(@WebParam(name = "Label", targetNamespace = NS, partName = "body") Label in);

    @WebMethod(operationName = "Locate", action = "urn:example:depot#Locate")
    @WebResult(name = "LocateResponse", targetNamespace = NS, partName = "body")
    LocateResponse locate(@WebParam(name = "Locate", targetNamespace = NS, partName = "body") Locate in);

    @WebMethod(operationName = "Refuse", action = "urn:example:depot#Refuse")
    @WebResult(name = "RefuseResponse", targetNamespace = NS, partName = "body")
    RefuseResponse refuse(@WebParam(name = "Refuse", targetNamespace = NS, partName = "body") Refuse in);

    @XmlRootElement(name = "Quote")
    @XmlAccessorType(XmlAccessType.FIELD)
    class Quote {
        public int grams;
        public int zone;
    }

    @XmlRootElement(name = "QuoteResponse")
    @XmlAccessorType(XmlAccessType.FIELD)
    class QuoteResponse {
        public int cents;
    }

    @XmlRootElement(name = "Label")
    @XmlAccessorType(XmlAccessType.FIELD)
    class Label {
        @XmlElement(required = true)
        public String text;
    }

    @XmlRootElement(name = "LabelResponse")
    @XmlAccessorType(XmlAccessType.FIELD)
    class LabelResponse {
        @XmlElement(required = true)
        public String text;
    }

    @XmlRootElement(name = "Locate")
    @XmlAccessorType(XmlAccessType.FIELD)
    class Locate {
        @XmlElement(required = true)
        public String parcel;
        public String hint;
    }

    @XmlRootElement(name = "LocateResponse")
    @XmlAccessorType(XmlAccessType.FIELD)
    class LocateResponse {
        @XmlElement(required = true, nillable = true)
        public Integer shelf;
        public String note;
    }

    @XmlRootElement(name = "Refuse")
    @XmlAccessorType(XmlAccessType.FIELD)
    class Refuse {
        @XmlElement(required = true)
        public String parcel;
    }

    @XmlRootElement(name = "RefuseResponse")
    @XmlAccessorType(XmlAccessType.FIELD)
    class RefuseResponse {}
}
