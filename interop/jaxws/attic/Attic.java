package attic;

import jakarta.activation.DataHandler;
import jakarta.jws.Oneway;
import jakarta.jws.WebMethod;
import jakarta.jws.WebParam;
import jakarta.jws.WebResult;
import jakarta.jws.WebService;
import jakarta.jws.soap.SOAPBinding;
import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlAttachmentRef;
import jakarta.xml.bind.annotation.XmlElement;
import jakarta.xml.bind.annotation.XmlMimeType;
import jakarta.xml.bind.annotation.XmlRootElement;
import jakarta.xml.ws.Holder;
import jakarta.xml.ws.WebFault;

/** The attic's port type. The elements of its messages are not named as its operations. */
@WebService(name = "AtticPort", targetNamespace = Attic.NS)
@SOAPBinding(parameterStyle = SOAPBinding.ParameterStyle.BARE)
public interface Attic {
    String NS = "urn:example:attic";

    /** Gives the note back, and the header block with the note's text behind it. */
    @WebMethod(operationName = "Tag", action = NS + ":Tag")
    @WebResult(name = "Tagged", targetNamespace = NS)
    Note tag(
            @WebParam(name = "TagNote", targetNamespace = NS) Note in,
            @WebParam(name = "Ticket", targetNamespace = NS, header = true, mode = WebParam.Mode.INOUT) Holder<Ticket> ticket);

    /** Remembers a note; there is no answer. */
    @Oneway
    @WebMethod(operationName = "Drop", action = NS + ":Drop")
    void drop(@WebParam(name = "DropNote", targetNamespace = NS) Note in);

    /** Answers with a fault of its own. */
    @WebMethod(operationName = "Fail", action = NS + ":Fail")
    @WebResult(name = "Failed", targetNamespace = NS)
    Note fail(@WebParam(name = "FailNote", targetNamespace = NS) Note in) throws AtticFault;

    /** All that was dropped and stowed, a line for each. */
    @WebMethod(operationName = "Look", action = NS + ":Look")
    @WebResult(name = "Looked", targetNamespace = NS)
    Note look(@WebParam(name = "LookNote", targetNamespace = NS) Note in);

    /** Answers with the digest of a file, which comes by MTOM. */
    @WebMethod(operationName = "Keep", action = NS + ":Keep")
    @WebResult(name = "Kept", targetNamespace = NS)
    Note keep(@WebParam(name = "KeepFile", targetNamespace = NS) MtomFile in);

    /** Remembers the digest of a file. */
    @Oneway
    @WebMethod(operationName = "Stow", action = NS + ":Stow")
    void stow(@WebParam(name = "StowFile", targetNamespace = NS) MtomFile in);

    /** Keep for a SOAP message with attachments. */
    @WebMethod(operationName = "KeepAttached", action = NS + ":KeepAttached")
    @WebResult(name = "KeptAttached", targetNamespace = NS)
    Note keepAttached(@WebParam(name = "KeepAttachment", targetNamespace = NS) SwaFile in);

    /** Stow for a SOAP message with attachments. */
    @Oneway
    @WebMethod(operationName = "StowAttached", action = NS + ":StowAttached")
    void stowAttached(@WebParam(name = "StowAttachment", targetNamespace = NS) SwaFile in);

    @XmlAccessorType(XmlAccessType.FIELD)
    class Note {
        @XmlElement(required = true)
        public String text;

        public Note() {}

        public Note(String text) {
            this.text = text;
        }
    }

    @XmlAccessorType(XmlAccessType.FIELD)
    class Ticket {
        @XmlElement(required = true)
        public String number;
    }

    @XmlAccessorType(XmlAccessType.FIELD)
    class MtomFile {
        @XmlElement(required = true)
        public String name;

        @XmlElement(required = true)
        @XmlMimeType("application/octet-stream")
        public DataHandler data;
    }

    @XmlAccessorType(XmlAccessType.FIELD)
    class SwaFile {
        @XmlElement(required = true)
        public String name;

        @XmlElement(required = true)
        @XmlAttachmentRef
        public DataHandler data;
    }

    @XmlRootElement(name = "AtticClosed")
    @XmlAccessorType(XmlAccessType.FIELD)
    class Closed {
        @XmlElement(required = true)
        public String reason;
    }

    /** The fault that the port type declares. */
    @WebFault(name = "AtticClosed", targetNamespace = NS)
    class AtticFault extends Exception {
        private static final long serialVersionUID = 1;
        private final transient Closed info;

        public AtticFault(String message, Closed info) {
            super(message);
            this.info = info;
        }

        public AtticFault(String message, Closed info, Throwable cause) {
            super(message, cause);
            this.info = info;
        }

        public Closed getFaultInfo() {
            return info;
        }
    }
}
