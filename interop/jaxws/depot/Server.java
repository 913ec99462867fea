package depot;

import attic.AtticServer;
import jakarta.jws.WebService;
import jakarta.xml.soap.SOAPConstants;
import jakarta.xml.soap.SOAPException;
import jakarta.xml.soap.SOAPFactory;
import jakarta.xml.soap.SOAPFault;
import jakarta.xml.ws.BindingType;
import jakarta.xml.ws.Endpoint;
import jakarta.xml.ws.WebServiceException;
import jakarta.xml.ws.soap.SOAPBinding;
import jakarta.xml.ws.soap.SOAPFaultException;
import java.util.concurrent.Executors;
import java.util.logging.LogManager;
import javax.xml.namespace.QName;

/**
 * The depot: /11 speaks SOAP 1.1 and /12 SOAP 1.2, and the attic is beside it. Each
 * has a WSDL that the library makes, with its schema in a document of its own.
 * Run: java depot.Server PORT
 */
public final class Server {
    private Server() {}

    public static void main(String[] args) {
        LogManager.getLogManager().reset();
        String base = "http://127.0.0.1:" + args[0];
        AtticServer.publish(base);
        publish(new V12(), base + "/12");
        publish(new V11(), base + "/11"); // the last: tests wait for it
    }

    private static void publish(Object service, String url) {
        Endpoint endpoint = Endpoint.create(service);
        endpoint.setExecutor(Executors.newCachedThreadPool());
        endpoint.publish(url);
    }

    /** The operations; a subclass for each version says how it refuses. */
    abstract static class Base implements Depot {
        private final String protocol;
        private final QName code;

        Base(String protocol, QName code) {
            this.protocol = protocol;
            this.code = code;
        }

        @Override
        public QuoteResponse quote(Quote in) {
            QuoteResponse out = new QuoteResponse();
            out.cents = in.grams * in.zone;
            return out;
        }

        @Override
        public LabelResponse label(Label in) {
            LabelResponse out = new LabelResponse();
            out.text = in.text;
            return out;
        }

        @Override
        public LocateResponse locate(Locate in) {
            LocateResponse out = new LocateResponse();
            if (in.hint != null) {
                out.shelf = 7;
                out.note = "looked at " + in.hint;
            }
            return out;
        }

        @Override
        public RefuseResponse refuse(Refuse in) {
            try {
                SOAPFault fault = SOAPFactory.newInstance(protocol).createFault("refused & returned: " + in.parcel, code);
                fault.addDetail()
                        .addChildElement(new QName(NS, "ParcelRefused"))
                        .addChildElement(new QName(NS, "reason"))
                        .addTextNode("zone <9> is closed");
                throw new SOAPFaultException(fault);
            } catch (SOAPException e) {
                throw new WebServiceException(e);
            }
        }
    }

    @WebService(targetNamespace = Depot.NS, serviceName = "Depot", portName = "Port11", endpointInterface = "depot.Depot")
    public static final class V11 extends Base {
        public V11() {
            super(SOAPConstants.SOAP_1_1_PROTOCOL, new QName(SOAPConstants.URI_NS_SOAP_1_1_ENVELOPE, "Client"));
        }
    }

    @WebService(targetNamespace = Depot.NS, serviceName = "Depot", portName = "Port12", endpointInterface = "depot.Depot")
    @BindingType(SOAPBinding.SOAP12HTTP_BINDING)
    public static final class V12 extends Base {
        public V12() {
            super(SOAPConstants.SOAP_1_2_PROTOCOL, SOAPConstants.SOAP_SENDER_FAULT);
        }
    }
}
