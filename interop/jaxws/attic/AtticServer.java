package attic;

import com.sun.xml.ws.developer.StreamingAttachmentFeature;
import jakarta.activation.DataHandler;
import jakarta.jws.WebService;
import jakarta.xml.ws.BindingType;
import jakarta.xml.ws.Endpoint;
import jakarta.xml.ws.Holder;
import jakarta.xml.ws.WebServiceException;
import jakarta.xml.ws.soap.MTOMFeature;
import jakarta.xml.ws.soap.SOAPBinding;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

/** The attic at /mtom/11, /mtom/12, /swa/11 and /swa/12. */
public final class AtticServer {
    private static final List<String> SEEN = new ArrayList<>();

    private AtticServer() {}

    /** Begins to serve below a URL. */
    public static void publish(String base) {
        // What is larger than this is read from a file by whoever asks for it.
        StreamingAttachmentFeature files = new StreamingAttachmentFeature(System.getProperty("java.io.tmpdir"), false, 1L << 20);
        MTOMFeature mtom = new MTOMFeature(true, 100);
        start(Endpoint.create(new V11(), files, mtom), base + "/mtom/11");
        start(Endpoint.create(new V12(), files, mtom), base + "/mtom/12");
        start(Endpoint.create(new V11(), files), base + "/swa/11");
        start(Endpoint.create(new V12(), files), base + "/swa/12");
    }

    private static void start(Endpoint endpoint, String url) {
        endpoint.setExecutor(Executors.newCachedThreadPool());
        endpoint.publish(url);
    }

    private static void remember(String line) {
        synchronized (SEEN) {
            SEEN.add(line);
        }
    }

    private static String digest(String name, DataHandler data) {
        try {
            return name + " " + Digest.of(data.getInputStream());
        } catch (IOException e) {
            throw new WebServiceException(e);
        }
    }

    abstract static class Base implements Attic {
        @Override
        public Note tag(Note in, Holder<Ticket> ticket) {
            if (ticket.value == null) {
                throw new WebServiceException("no ticket");
            }
            ticket.value.number += "-" + in.text;
            return in;
        }

        @Override
        public void drop(Note in) {
            remember(in.text);
        }

        @Override
        public Note fail(Note in) throws AtticFault {
            Closed closed = new Closed();
            closed.reason = "closed & locked: " + in.text;
            throw new AtticFault("the attic is closed", closed);
        }

        @Override
        public Note look(Note in) {
            synchronized (SEEN) {
                return new Note(String.join("\n", SEEN));
            }
        }

        @Override
        public Note keep(MtomFile in) {
            return new Note(digest(in.name, in.data));
        }

        @Override
        public void stow(MtomFile in) {
            remember(digest(in.name, in.data));
        }

        @Override
        public Note keepAttached(SwaFile in) {
            return new Note(digest(in.name, in.data));
        }

        @Override
        public void stowAttached(SwaFile in) {
            remember(digest(in.name, in.data));
        }
    }

    @WebService(targetNamespace = Attic.NS, serviceName = "Attic", portName = "Port11", endpointInterface = "attic.Attic")
    public static final class V11 extends Base {}

    @WebService(targetNamespace = Attic.NS, serviceName = "Attic", portName = "Port12", endpointInterface = "attic.Attic")
    @BindingType(SOAPBinding.SOAP12HTTP_BINDING)
    public static final class V12 extends Base {}
}
